"""Batch sizes that follow the GPU, and the steps of an epoch."""

from collections.abc import Callable

import pytest
import torch

from leakdet.config import TrainConfig
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.step_size import (
    batch_size_for,
    few_steps_notes,
    steps_line,
    unused_gpu_notes,
    with_batch_size,
)
from leakdet.training.stopping import resolved

Configured = Callable[..., TrainConfig]
Opened = Callable[[TrainConfig], LeakDataModule]


def has_gpus(monkeypatch: pytest.MonkeyPatch, *total_gb: float) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(total_gb))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda n: (10**9, int(total_gb[n] * 1e9)))


@pytest.mark.parametrize(
    ("gpus", "size"),
    # as torch tells them: 4, 8, 16 (T4), 24, 40, 80, 141 and 192 GB, and two of a kind or not
    [
        ((4.2,), 1024),
        ((8.3,), 2048),
        ((15.8,), 4096),
        ((25.4,), 4096),
        ((42.4,), 8192),
        ((84.9,), 8192),
        ((150.0,), 16384),
        ((205.0,), 16384),
        ((84.9, 8.3), 2048),
    ],
)
def test_the_smallest_gpu_decides(
    gpus: tuple[float, ...], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_gpus(monkeypatch, *gpus)
    assert batch_size_for({"accelerator": "gpu"}) == size
    assert batch_size_for({"accelerator": "cpu"}) == 512


def test_a_given_batch_size_stays(
    configured: Configured, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert with_batch_size(configured("data.batch_size=7")).data.batch_size == 7
    config = configured("data.batch_size=0")
    assert resolved(config, opened(config)).data.batch_size <= 512
    has_gpus(monkeypatch, 84.9)
    gpu = configured("trainer=gpu", "data.batch_size=0")
    assert with_batch_size(gpu).data.batch_size == 8192


def test_an_epoch_of_a_handful_of_steps_is_named(configured: Configured, opened: Opened) -> None:
    config = configured("stop.name=val", "data.batch_size=1000000")
    data = opened(config)
    samples = len(data.train_samples)
    assert steps_line(config, data) == f"1 an epoch, each of {samples} windows"
    (note,) = few_steps_notes(config, data)
    assert "an epoch is 1 optimiser step," in note
    assert f"data.batch_size={samples // 10}" in note
    assert not list(few_steps_notes(configured("stop.name=val", "data.batch_size=2"), data))
    assert not list(few_steps_notes(configured("stop.name=fixed", "data.batch_size=99999"), data))
    sought = configured("stop.name=val", "data.batch_size=99999", "find_batch_size=true")
    assert not list(few_steps_notes(sought, data))


def test_the_effective_batch_is_that_of_a_step(configured: Configured, opened: Opened) -> None:
    config = configured("data.batch_size=10", "trainer.accumulate_grad_batches=4")
    data = opened(config)
    samples = len(data.train_samples)
    batches = -(-samples // 10)
    expected = f"{-(-batches // 4)} an epoch, each of at most {4 * -(-samples // batches)} windows"
    assert steps_line(config, data) == f"{expected}, 4 batches together"
    limited = configured("data.batch_size=10", "trainer.limit_train_batches=2")
    assert steps_line(limited, data).startswith("2 an epoch")


def test_a_gpu_that_is_not_used_is_named(
    configured: Configured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert not list(unused_gpu_notes(configured()))
    has_gpus(monkeypatch, 84.9)
    assert ["trainer=gpu" in note for note in unused_gpu_notes(configured())] == [True]
    assert not list(unused_gpu_notes(configured("trainer=gpu")))
