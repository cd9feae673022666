import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from leakdet.config import NetworkConfig, SignalConfig
from leakdet.core.errors import InputError, LeakdetError
from leakdet.detection.decision import DecisionRule
from leakdet.detection.detector import MelDetector
from leakdet.detection.familiarity import SpectralReference
from leakdet.detection.labels import LabelMap
from leakdet.detection.met import MetRecordings
from leakdet.detection.networks import make_network
from leakdet.detection.source_rates import SourceRates
from leakdet.detection.stored_scores import ValidationScores
from leakdet.storage.model_file import (
    AILH_SIGNAL,
    CARD_KEY,
    load_mel_detector,
    make_card,
    read_torch,
    save_model,
    write_torch,
)


class ExecutedError(Exception):
    pass


class TorchBomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return ExecutedError, ("code in the file was executed",)


def test_plain_containers_and_tensors_come_back(tmp_path: Path):
    path = tmp_path / "plain.ckpt"
    write_torch({"epoch": 3, "state_dict": {"weight": torch.arange(4)}}, path)
    content = read_torch(path, "training checkpoint")
    assert content["epoch"] == 3
    assert torch.equal(content["state_dict"]["weight"], torch.arange(4))


def test_what_is_cut_off_or_executable_is_refused_with_its_kind(tmp_path: Path):
    path = tmp_path / "x.ckpt"
    torch.save({"bomb": TorchBomb()}, path)
    whole = path.read_bytes()
    for content in (whole, whole[: len(whole) // 2], b"", b"hello"):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"x\.ckpt: not a whole training checkpoint \(.+\)"):
            read_torch(path, "training checkpoint")


def test_a_changed_byte_of_a_tensor_is_noticed(tmp_path: Path):
    """torch loads it without a word."""
    path = tmp_path / "x.ckpt"
    write_torch({"weight": torch.full((1000,), 7.0)}, path)
    whole = bytearray(path.read_bytes())
    whole[whole.index(torch.full((1,), 7.0).numpy().tobytes() * 9) + 2] ^= 1
    path.write_bytes(whole)
    assert not torch.equal(torch.load(path)["weight"], torch.full((1000,), 7.0))
    with pytest.raises(InputError, match=r"x\.ckpt: .*data/0 .*Copy it"):
        read_torch(path, "training checkpoint")


def test_files_of_the_first_format_of_torch_have_no_checksums_and_load(tmp_path: Path):
    content, path = {"weight": torch.arange(4)}, tmp_path / "x.pth"
    torch.save(content, path, _use_new_zipfile_serialization=False)
    assert torch.equal(read_torch(path, "file of weights")["weight"], content["weight"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_named():
    with pytest.raises(OSError, match="No space left"):
        write_torch({"weight": torch.zeros(1000)}, Path("/dev/full"))


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
    with pytest.raises(InputError, match=r"network of AILH.*fc1\.weight"):
        load_mel_detector(tmp_path / "best.pth")
    (tmp_path / "cut.pth").write_bytes(b"PK")
    with pytest.raises(InputError, match=r"cut\.pth: not a whole file of weights"):
        load_mel_detector(tmp_path / "cut.pth")


def test_its_signal_is_the_preset(compose: Callable[..., Any]) -> None:
    assert compose("train", "signal=ailh", "experiment=ailh").signal == AILH_SIGNAL


SIGNAL = SignalConfig(fmax_hz=8000.0)
CONFIG = NetworkConfig()


def saved(path: Path, **changes: object) -> torch.nn.Module:
    network = make_network(CONFIG, SIGNAL.mel_shape, 2)
    network.input.band_mean.fill_(3.0)
    card = make_card(
        signal=SIGNAL,
        labels=LabelMap("binary", ("NO_LEAK", "LEAK"), (1,)),
        network=CONFIG,
        mel_shape=SIGNAL.mel_shape,
        unit="window",
        blend=0.5,
        rule=DecisionRule(threshold=0.37, fitted_on="val", policy="max_f1"),
        training={"store": "somewhere"},
    )
    save_model(path, network.state_dict(), {**card, **changes})
    return network


def test_a_model_comes_back_whole(tmp_path: Path):
    path = tmp_path / "m.safetensors"
    network = saved(path).eval()
    found = load_mel_detector(path)
    mel = torch.randn(5, *SIGNAL.mel_shape) - 40
    torch.testing.assert_close(found.network(mel), network(mel))
    assert (found.signal, found.rule.threshold, found.rule.fitted_on) == (SIGNAL, 0.37, "val")
    assert (found.labels.names, found.labels.leaks) == (("NO_LEAK", "LEAK"), (1,))
    assert [left.name for left in tmp_path.iterdir()] == ["m.safetensors"]
    assert (found.met, found.reference, found.sources) == (None, None, None)


def test_what_a_model_has_met_and_what_that_sounded_like_come_back(tmp_path: Path):
    path = tmp_path / "m.safetensors"
    network = saved(path)
    card = load_mel_detector(path).card
    features = np.random.default_rng(0).normal(0, 1, (20, 2 * SIGNAL.n_mels))
    reference = SpectralReference.of(features, np.arange(20) < 10)
    assert reference is not None
    met = MetRecordings.of({"train": ["00" * 32]}, {"train": {"pipe": np.array(["a"])}})
    sources = SourceRates({48000: (5, 4), 8000: (1, 0)})
    save_model(path, network.state_dict(), card, met, reference=reference, sources=sources)
    found = load_mel_detector(path)
    assert found.sources == sources
    assert found.reference is not None
    assert found.reference.facts == reference.facts
    np.testing.assert_allclose(found.reference.kept, features, rtol=1e-6)
    assert found.met is not None
    assert found.met.groups == met.groups
    broken = {**card, "spectral_reference": {}}
    save_model(path, network.state_dict(), broken)
    with pytest.raises(InputError, match="spectral reference"):
        load_mel_detector(path)


def test_scores_of_a_window_do_not_depend_on_the_other_windows(tmp_path: Path):
    path = tmp_path / "m.safetensors"
    saved(path)
    detector = load_mel_detector(path)
    mel = (torch.randn(2100, *SIGNAL.mel_shape) - 40).half()
    together = detector.window_prob(mel)
    torch.testing.assert_close(
        together[1500:1503], detector.window_prob(mel[1500:1503]), atol=1e-5, rtol=0
    )
    segments: MelDetector = replace(
        detector, unit="segment", network=make_network(CONFIG, (1, 64, 1), 2)
    )
    prob = segments.window_prob(mel[:4])
    one = segments.window_prob(mel[2:3])
    torch.testing.assert_close(prob[2:3], one, atol=1e-5, rtol=0)


def test_the_keys_of_a_compiled_network_load(tmp_path: Path):
    path = tmp_path / "m.safetensors"
    network = saved(path)
    compiled = {f"_orig_mod.{name}": tensor for name, tensor in network.state_dict().items()}
    save_model(path, compiled, load_mel_detector(path).card)
    mel = torch.randn(2, *SIGNAL.mel_shape)
    torch.testing.assert_close(load_mel_detector(path).network(mel), network.eval()(mel))


def test_what_is_no_model_says_so(tmp_path: Path):
    path = tmp_path / "m.safetensors"
    saved(path)
    whole = path.read_bytes()
    cases = {
        "cut.safetensors": (whole[: len(whole) // 2], "not a whole .safetensors"),
        "text.safetensors": (b"hello", "not a whole .safetensors"),
        "cut.ckpt": (whole[:5000], "not a whole training checkpoint"),
        "model.onnx": (whole, "an .onnx file"),
    }
    for name, (content, message) in cases.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=message):
            load_mel_detector(tmp_path / name)
    save_file({"x": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(InputError, match=r"other\.safetensors: .*not a model"):
        load_mel_detector(tmp_path / "other.safetensors")
    with pytest.raises(InputError, match="no such model"):
        load_mel_detector(tmp_path / "absent.safetensors")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format_version": 2}, "format version is 2"),
        ({"network": {"name": "paper"}}, "lacks"),
        ({"unit": None, "mel_shape": [30]}, "description"),
        ({"decision_rule": {}}, "decision rule lacks"),
        ({"mel_shape": [30, 32, 1]}, "weights do not fit"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(
    tmp_path: Path, changes: dict[str, object], message: str
):
    saved(tmp_path / "m.safetensors", **changes)
    with pytest.raises(Exception, match=message):
        load_mel_detector(tmp_path / "m.safetensors")


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return ExecutedError, ("a model file ran code",)


def test_nothing_executable_is_loaded(tmp_path: Path):
    path = tmp_path / "bomb.ckpt"
    torch.save({CARD_KEY: json.dumps({}), "state_dict": {}, "bomb": Bomb()}, path)
    with pytest.raises(InputError, match="not a whole training checkpoint"):
        load_mel_detector(path)


OWN_MODULE = """
from torch import nn
from leakdet.detection.networks import Network


class Net(Network):
    def __init__(self, config, mels, columns, classes, width):
        super().__init__(config, mels)
        self.dense = nn.Linear(mels * columns, width)
        self.add_heads(width, classes)

    def features(self, x):
        return self.dense(x.flatten(1)).relu()
"""


@pytest.fixture
def own_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A model file whose network is user code, with a module that is not imported."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "own_nets.py").write_text(OWN_MODULE)
    monkeypatch.syspath_prepend(folder)
    config = NetworkConfig("own_nets:Net", extra={"width": 7})
    network = make_network(config, SIGNAL.mel_shape, 2)
    path = tmp_path / "own.safetensors"
    saved(tmp_path / "plain.safetensors")
    card = load_mel_detector(tmp_path / "plain.safetensors").card
    save_model(path, network.state_dict(), {**card, "network": asdict(config)})
    del sys.modules["own_nets"]
    yield path
    sys.modules.pop("own_nets", None)


@pytest.mark.parametrize("trust", ["own_nets:Net", ["other:Net", "own_nets:Net"]])
def test_a_trusted_network_loads_with_its_settings(own_network: Path, trust: str | list[str]):
    detector = load_mel_detector(own_network, trust_network=trust)
    assert type(detector.network).__module__ == "own_nets"
    assert detector.network.embed(torch.zeros(1, *SIGNAL.mel_shape)).shape == (1, 7)
    assert detector.card["network"]["name"] == "own_nets:Net"


@pytest.mark.parametrize("trust", [(), "own_nets:Other", "own_nets", ["paper"]])
def test_a_network_that_is_not_trusted_is_not_imported(
    own_network: Path, trust: str | tuple[str, ...]
):
    with pytest.raises(InputError, match="--trust-network own_nets:Net ") as caught:
        load_mel_detector(own_network, trust_network=trust)
    assert str(own_network) in str(caught.value)
    assert "own_nets" not in sys.modules


def test_a_trusted_network_whose_package_is_missing_is_one_sentence(own_network: Path):
    (own_network.parent / "site" / "own_nets.py").unlink()
    with pytest.raises(InputError, match=r"own\.safetensors: .*No module named 'own_nets'"):
        load_mel_detector(own_network, trust_network="own_nets:Net")


@pytest.mark.parametrize(
    "network",
    [
        {"name": "this:s"},
        {"name": "this"},
        {"name": "this.that:s", "extra": {"x": "import this"}},
        {"name": "paper", "extra": {"name": "this:s"}},
        {"name": ["this:s"]},
        {"name": "this:s\n"},
    ],
)
def test_a_model_file_alone_imports_nothing(tmp_path: Path, network: dict[str, object]):
    """`this` is a module of the standard library that nothing else imports."""
    path = tmp_path / "m.safetensors"
    saved(path, network={**asdict(CONFIG), **network})
    with pytest.raises(LeakdetError, match=r"m\.safetensors"):
        load_mel_detector(path)
    assert "this" not in sys.modules


def test_what_is_trusted_must_still_be_a_network(tmp_path: Path):
    path = tmp_path / "m.safetensors"
    saved(path, network={**asdict(CONFIG), "name": "os:system", "extra": {"command": "exit"}})
    with pytest.raises(InputError, match=r"os:system: .*subclass"):
        load_mel_detector(path, trust_network="os:system")


def test_validation_and_test_scores_come_back_where_there_are_some(tmp_path: Path):
    path = tmp_path / "m.safetensors"
    network = saved(path)
    card = load_mel_detector(path).card
    assert load_mel_detector(path).validation is None
    assert load_mel_detector(path).tested is None
    scores = ValidationScores(np.array([0.25, 0.75]), np.array([False, True]))
    tested = ValidationScores(np.array([0.5, 0.6, 0.7]), np.array([True, False, True]))
    save_model(path, network.state_dict(), card, validation=scores, tested=tested)
    detector = load_mel_detector(path)
    for found, kept in ((detector.validation, scores), (detector.tested, tested)):
        assert found is not None
        assert np.array_equal(found.scores, kept.scores)
        assert np.array_equal(found.is_leak, kept.is_leak)


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_it_may_be_read_by_whom_the_umask_allows(tmp_path: Path, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        saved(tmp_path / "model.safetensors")
    finally:
        os.umask(before)
    assert (tmp_path / "model.safetensors").stat().st_mode & 0o777 == mode
