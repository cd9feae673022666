"""Weights of AILH give its outputs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from leakdet.errors import InputError
from leakdet.storage.ailh_weights import AILH_SIGNAL
from leakdet.storage.model_file import load_mel_detector


class AilhNetwork(nn.Module):
    """The network as the AILH scripts define it: 3x3 kernels on input of one column."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.conv3 = nn.Conv2d(64, 128, 3, padding=1)
        self.fc1 = nn.Linear(2048, 256)
        self.cls_head, self.leak_head = nn.Linear(256, classes), nn.Linear(256, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = functional.max_pool2d(self.conv2(self.conv1(x).relu()).relu(), (2, 1))
        x = functional.max_pool2d(self.conv3(x).relu(), (2, 1))
        x = self.fc1(functional.adaptive_avg_pool2d(x, (16, 1)).flatten(1)).relu()
        return self.cls_head(x), self.leak_head(x).squeeze(-1)


@pytest.mark.parametrize(("classes", "prefix", "wrap"), [(5, "", False), (2, "_orig_mod.", True)])
def test_outputs_are_equal(tmp_path: Path, classes: int, prefix: str, wrap: bool) -> None:
    torch.manual_seed(0)
    network = AilhNetwork(classes).eval()
    assert sum(p.numel() for p in network.parameters()) == (618758 if classes == 5 else 617987)
    state: Any = {prefix + name: weight for name, weight in network.state_dict().items()}
    torch.save({"model_state_dict": state, "epoch": 3} if wrap else state, tmp_path / "best.pth")
    detector = load_mel_detector(tmp_path / "best.pth")
    mel = 20 * torch.randn(7, 1, 64, 1) - 60
    with torch.no_grad():
        class_logits, leak_logit = network(mel)
        output = detector.network(mel)
    torch.testing.assert_close(output.class_logits, class_logits, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(output.leak_logit, leak_logit, atol=1e-6, rtol=1e-6)
    assert detector.labels.names[detector.labels.leaks[0]] == "LEAK"


def test_other_weights_are_refused_by_name(tmp_path: Path) -> None:
    torch.save({"conv1.weight": torch.zeros(1)}, tmp_path / "best.pth")
    with pytest.raises(InputError, match=r"not the network of AILH.*fc1\.weight"):
        load_mel_detector(tmp_path / "best.pth")
    (tmp_path / "cut.pth").write_bytes(b"PK")
    with pytest.raises(InputError, match=r"cut\.pth: not a whole file of weights"):
        load_mel_detector(tmp_path / "cut.pth")


def test_its_signal_is_the_preset(compose: Callable[..., Any]) -> None:
    assert compose("train", "signal=ailh", "experiment=ailh").signal == AILH_SIGNAL
