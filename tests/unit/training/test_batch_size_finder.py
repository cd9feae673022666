"""The batch size before a run: the fastest that fits and leaves memory."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from leakdet.config import TrainConfig
from leakdet.errors import LeakdetError
from leakdet.training import batch_size_finder
from leakdet.training.batch_size_finder import find_batch_size, growing, timed_speed
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.fit import make_module

Configured = Callable[..., TrainConfig]
Opened = Callable[[TrainConfig], LeakDataModule]
CPU = torch.device("cpu")


def test_sizes_grow_while_it_pays() -> None:
    speeds = {32: 100.0, 64: 190.0, 128: 350.0, 256: 360.0, 512: 1000.0}
    assert growing(speeds.get, list(speeds)) == [
        (32, 100.0),
        (64, 190.0),
        (128, 350.0),
        (256, 360.0),
    ]
    assert growing({32: 100.0}.get, [32, 64]) == [(32, 100.0)]  # 64 does not fit
    with pytest.raises(LeakdetError, match="not even 32"):
        growing({}.get, [32, 64])


def test_the_batches_of_a_fixed_training_are_kept(
    configured: Configured, opened: Opened, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tried: list[int] = []

    def speed(size: int) -> float:
        tried.append(size)
        return float(size)

    monkeypatch.setattr(batch_size_finder, "timed_speed", lambda *_: speed)
    for name, steps in (("val", 4), ("fixed", 10)):
        config = configured("network=linear", f"stop.name={name}")
        data = opened(config)
        size = find_batch_size(make_module(config, data), data, tmp_path, CPU)
        assert size == tried[-1] == len(data.train_samples) // steps


def test_a_size_must_leave_a_tenth_of_the_memory(
    configured: Configured, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configured("network=linear")
    data = opened(config)
    speed = timed_speed(make_module(config, data), data, CPU)
    monkeypatch.setattr(batch_size_finder, "TIMED_S", 0.0)
    for share, fits in ((0.89, True), (0.91, False)):
        monkeypatch.setattr(batch_size_finder, "used_share", lambda _, share=share: share)
        assert (speed(64) is not None) == fits
    assert speed(32) is not None  # others may fill the memory


def test_all_that_a_training_keeps_is_in_memory_when_it_is_read(
    configured: Configured, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configured("network=linear", "data.residency=device")
    data = opened(config)
    made, there = [], []
    trial_step = batch_size_finder.TrialStep
    place = batch_size_finder._place_of_windows

    def note(step: object) -> object:
        made.append(step)
        return step

    def read(_: torch.device) -> float:
        (step,) = made
        parameters = list(step.network.parameters())
        there.extend(parameter.grad is not None for parameter in parameters)
        there.extend(bool(step.optimizer.state[parameter]) for parameter in parameters)
        return 0.0

    windows = place(data, CPU)
    assert windows is not None
    assert len(windows) == data.splits.train.mel.nbytes + data.splits.val.mel.nbytes
    monkeypatch.setattr(batch_size_finder, "TrialStep", lambda *a: note(trial_step(*a)))
    monkeypatch.setattr(batch_size_finder, "used_share", read)
    monkeypatch.setattr(batch_size_finder, "TIMED_S", 0.0)
    assert timed_speed(make_module(config, data), data, CPU)(64) is not None
    assert there
    assert all(there)


def test_other_errors_are_not_taken_for_a_full_memory(
    configured: Configured, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configured("network=linear")
    data = opened(config)
    module = make_module(config, data)

    def refuse(*_: object) -> None:
        raise RuntimeError("expected a tensor")

    monkeypatch.setattr(batch_size_finder, "TrialStep", refuse)
    with pytest.raises(RuntimeError, match="expected a tensor"):
        timed_speed(module, data, CPU)(4)
