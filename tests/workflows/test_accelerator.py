"""Training on an accelerator, where there is none.

A registered accelerator whose device is the CPU runs whole trainings with the windows on it. A step
on torch's meta device finds what lies on another device, and what a step would have to wait for.
"""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.accelerators import Accelerator, AcceleratorRegistry
from lightning.pytorch.callbacks import Callback as LightningCallback
from lightning.pytorch.profilers import PassThroughProfiler
from lightning.pytorch.strategies import SingleDeviceStrategy, StrategyRegistry

from leakdet.config import TrainConfig, train
from leakdet.loading import memory as placement
from leakdet.loading.loaders import InMemorySamples
from leakdet.runs.evaluation import evaluate_model
from leakdet.runs.training import MODEL, train_in
from leakdet.training.callbacks.stopping import Interrupted
from leakdet.training.checkpoints import read_checkpoint
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.fit import make_module

QUIET = ("experiment=smoke", "logger=none", "trainer.enable_progress_bar=false")
RUN = (*QUIET, "network=linear", "trainer.max_epochs=2", "data.batch_size=16")
DEVICE = torch.device("cpu", 0)  # unlike torch.device("cpu"), which other code may ask for


class Pretended(Accelerator):
    """An accelerator as another package may register one."""

    def setup_device(self, device: torch.device) -> None:
        assert device == DEVICE

    def get_device_stats(self, device: Any) -> dict[str, Any]:
        return {}

    def teardown(self) -> None:
        pass

    @staticmethod
    def parse_devices(devices: Any) -> Any:
        return devices

    @staticmethod
    def get_parallel_devices(devices: Any) -> list[torch.device]:
        return [DEVICE]

    @staticmethod
    def auto_device_count() -> int:
        return 1

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def name() -> str:
        return "pretended"


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[torch.device]]:
    """Where samples were moved to, with the accelerator in place: it has 8 GB free."""
    asked: list[torch.device] = []
    to = InMemorySamples.to

    def note(samples: InMemorySamples, device: torch.device) -> InMemorySamples:
        asked.append(device)
        return to(samples, device)

    monkeypatch.setattr(InMemorySamples, "to", note)
    monkeypatch.setattr(train, "ACCELERATORS", (*train.ACCELERATORS, Pretended.name()))
    monkeypatch.setattr(placement, "accelerator_free_bytes", lambda _: 8 * 10**9)
    AcceleratorRegistry.register(Pretended.name(), Pretended)
    StrategyRegistry.register(Pretended.name(), SingleDeviceStrategy, device=DEVICE)
    precision = torch.get_float32_matmul_precision()
    yield asked
    torch.set_float32_matmul_precision(precision)
    AcceleratorRegistry.remove(Pretended.name())
    StrategyRegistry.remove(Pretended.name())


class Stop(LightningCallback):
    """Sends this process SIGTERM once an optimiser step is done."""

    def on_before_zero_grad(self, trainer: "pl.Trainer", *_: Any) -> None:
        if trainer.global_step == 8:
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_training_on_an_accelerator_resumes_and_is_evaluated(
    compose: Callable[..., Any], demo_store: Path, moved: list[torch.device], tmp_path: Path
) -> None:
    settings = (*RUN, f"data.store={demo_store}")
    on_it = (*settings, "trainer.accelerator=pretended", "+trainer.strategy=pretended")
    train_in(tmp_path / "cpu", compose("train", *settings), finish=False)
    assert set(moved) <= {torch.device("cpu")}
    moved.clear()
    train_in(tmp_path / "whole", compose("train", *on_it), finish=False)
    assert DEVICE in moved
    with pytest.raises(Interrupted):
        train_in(tmp_path / "cut", compose("train", *on_it), [Stop()])
    cut = compose("train", *on_it, f"resume={tmp_path / 'cut'}")
    resumed = train_in(tmp_path / "resumed", cut)
    histories = [(tmp_path / name / "history.csv").read_text() for name in ("whole", "resumed")]
    assert histories[0] == histories[1]
    states = [
        read_checkpoint(tmp_path / name / "checkpoints" / "last.ckpt")["state_dict"]
        for name in ("whole", "resumed", "cpu")
    ]
    for name, value in states[0].items():
        assert torch.equal(value, states[1][name])
        torch.testing.assert_close(value, states[2][name])
    assert resumed
    evaluated = evaluate_model(tmp_path / "resumed" / MODEL, demo_store)
    recordings = [content["test"]["recording"] for content in (resumed, evaluated)]
    assert recordings[0]["auroc"] == recordings[1]["auroc"]


def test_a_step_mixes_no_devices_and_waits_for_none(
    compose: Callable[..., Any], demo_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the meta device a tensor of another device is refused, and no number can be read."""
    meta = torch.device("meta")
    config: TrainConfig = compose(
        "train",
        *RUN,
        f"data.store={demo_store}",
        "network=dual_head",
        "augment.gain_db=1",
        "augment.mask_mels=4",
        "loss=focal",
    )
    data = LeakDataModule(config, demo_store)
    data.setup("fit")
    data.read_windows()
    module = make_module(data).to(meta)
    monkeypatch.setattr("leakdet.training.module.step_divisor", lambda *_: 8.0)
    module._trainer = SimpleNamespace(profiler=PassThroughProfiler(), current_epoch=0)
    memory = InMemorySamples(data.train_samples).to(meta)
    batch = memory.take(torch.arange(8, device=meta))
    assert {part.device for part in batch} == {meta}
    module.training_step(batch, 0).backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
    gradients = [parameter.grad for parameter in module.network.parameters()]
    assert all(gradient is not None and gradient.device == meta for gradient in gradients)
    val = InMemorySamples(data.val_samples).to(meta)
    with torch.no_grad():
        module.validation_step(val.batch(0, 4), 0)
