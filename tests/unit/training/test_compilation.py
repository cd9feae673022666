"""Compiling the network for training steps, and machines that cannot."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from leakdet.config import TrainConfig
from leakdet.config.train import COMPILE_MODES
from leakdet.core.errors import SettingsError
from leakdet.detection.networks import Output
from leakdet.training import compilation
from leakdet.training.compilation import compiled, rehearse, step_sizes, torch_mode
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.settings import check_settings

Configured = Callable[..., TrainConfig]
Opened = Callable[[TrainConfig], LeakDataModule]
SHAPES = [(4, 1, 3, 2), (5, 1, 3, 2)]


class Net(nn.Module):
    """A network with all that a step may change: running statistics, dropout, gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.dropout = nn.BatchNorm1d(6), nn.Dropout(0.5)
        self.head = nn.Linear(6, 3)

    def forward(self, mel: Tensor) -> Output:
        out = self.head(self.dropout(self.norm(mel.flatten(1))))
        return Output(out[:, :2], out[:, 2])


@pytest.fixture
def settings() -> TrainConfig:
    compilation._warn.cache_clear()
    compilation._announce.cache_clear()
    return TrainConfig(compile=True)


def test_the_rehearsal_changes_nothing_of_the_network() -> None:
    net = Net()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    drawn = torch.random.get_rng_state()
    net.eval()
    rehearse(net, net, torch.ones(4, 1, 3, 2))
    assert torch.equal(drawn, torch.random.get_rng_state())
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert all(parameter.grad is None for parameter in net.parameters())
    assert not net.training


def test_what_fails_to_compile_is_trained_as_it_is_and_says_so_once(
    settings: TrainConfig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError("no such operator: frobnicate\nand a long trace")

    monkeypatch.setattr(torch, "compile", lambda *_, **__: refuse)
    net = Net()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert compiled(net, settings, SHAPES) == net.__call__
    (warning,) = caplog.messages
    assert "(RuntimeError: no such operator: frobnicate)" in warning


def test_a_failure_of_the_backward_pass_counts(
    settings: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:  # type: ignore[override]
            return x.clone()

        @staticmethod
        def backward(ctx: Any, x: Tensor) -> Tensor:  # type: ignore[override]
            raise RuntimeError("kernel does not launch")

    net = Net()
    broken: Any = lambda mel: Output(*map(Broken.apply, net(mel)))  # noqa: E731
    monkeypatch.setattr(torch, "compile", lambda *_, **__: broken)
    assert compiled(net, settings, SHAPES) == net.__call__


def test_a_full_memory_is_no_failure_of_the_compiler(
    settings: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch, "compile", lambda *_, **__: refuse)
    with pytest.raises(torch.OutOfMemoryError):
        compiled(Net(), settings, SHAPES)


def test_the_remedy_is_a_compiler_only_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    for name in ("CC", "CXX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "install g++" in compilation._remedy("")
    gcc = tmp_path / "gcc"
    gcc.touch(0o755)
    assert "install" not in compilation._remedy("RuntimeError: no such operator")
    # a C compiler alone does not do
    assert "install g++" in compilation._remedy("InvalidCxxCompiler: No working C++ compiler")


def test_trainings_of_one_shape_and_network_compile_once(
    settings: TrainConfig, monkeypatch: pytest.MonkeyPatch, messages: pytest.LogCaptureFixture
) -> None:
    """As the trials of a sweep do; each batch size is one graph, or one graph is for all."""
    graphs = []

    def backend(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    own = torch.compile
    monkeypatch.setattr(torch, "compile", lambda run, **_: own(run, backend=backend))
    first = compiled(Net(), settings, SHAPES)
    assert 1 <= len(graphs) <= 2
    met = len(graphs)
    second = compiled(Net(), settings, SHAPES)
    assert first(torch.zeros(5, 1, 3, 2)).leak_logit.shape == (5,)
    assert second(torch.zeros(4, 1, 3, 2)).leak_logit.shape == (4,)
    assert len(graphs) == met
    assert [text.split(":")[0] for text in messages.messages] == ["compile  compiling"]


def test_sizes_are_those_that_an_epoch_has(configured: Configured, opened: Opened) -> None:
    data = opened(configured("data.batch_size=50"))
    sizes = {len(batch.mel) for batch in data.train_loader().batches(0)}
    assert step_sizes(data, 0, 1) == sorted(sizes)
    of_ranks = [step_sizes(data, rank, 2) for rank in range(2)]
    assert {size for of_rank in of_ranks for size in of_rank} <= {size // 2 for size in sizes} | {
        -(-size // 2) for size in sizes
    }


def test_no_cuda_graph_overwrites_gradients_that_are_added_up(configured: Configured) -> None:
    one, two = ("trainer.accumulate_grad_batches=1", "trainer.accumulate_grad_batches=2")
    autotune = "compile_mode=max-autotune"
    assert torch_mode(configured(autotune, one)) == "max-autotune"
    assert torch_mode(configured(autotune, two)) == "max-autotune-no-cudagraphs"
    assert torch_mode(configured(two)) == "default"
    graphs = ("compile=true", "compile_mode=reduce-overhead")
    check_settings(configured(*graphs, one))
    with pytest.raises(SettingsError, match="compile_mode=reduce-overhead: "):
        check_settings(configured(*graphs, two))
    for mode in COMPILE_MODES:
        torch._inductor.list_mode_options(torch_mode(configured(f"compile_mode={mode}", two)))
