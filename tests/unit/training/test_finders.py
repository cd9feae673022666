import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from leakdet.config import TrainConfig
from leakdet.core.errors import LeakdetError, SettingsError
from leakdet.reporting.training_figures import batch_size_finder, rate_finder
from leakdet.training import finders
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.finders import (
    EPOCH_STEPS,
    HIGH,
    LOW,
    STEPS,
    TrialStep,
    find_batch_size,
    find_rate,
    growing,
    range_test,
    smoothed,
    steepest,
    timed_speed,
)
from leakdet.training.fit import make_module

Configured = Callable[..., TrainConfig]
Opened = Callable[[TrainConfig], LeakDataModule]


def test_steps_lower_the_loss_in_the_precision_of_the_training_and_leave_the_module(
    configured: Configured, opened: Opened
) -> None:
    entered: list[int] = []

    def precision() -> AbstractContextManager[Any]:
        entered.append(1)
        return nullcontext()

    config = configured("network=linear", "augment.eq_db=0")
    data = opened(config)
    module = make_module(data)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    trial = TrialStep(module, torch.device("cpu"), precision)
    batch = trial.on_device(data.train_samples.batch(0, 64))
    losses = [float(trial.train(batch, 0.01)) for _ in range(5)]
    trial.validate(batch)
    assert losses[-1] < losses[0]
    assert len(entered) == 6
    assert trial.network.training
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


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

    monkeypatch.setattr(finders, "timed_speed", lambda *_: speed)
    for name, steps in (("val", 4), ("fixed", 10)):
        config = configured("network=linear", f"stop.name={name}")
        data = opened(config)
        size = find_batch_size(make_module(data), data, tmp_path, CPU)
        assert size == tried[-1] == len(data.train_samples) // steps


def test_a_size_must_leave_a_tenth_of_the_memory(
    configured: Configured, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configured("network=linear")
    data = opened(config)
    speed = timed_speed(make_module(data), data, CPU)
    monkeypatch.setattr(finders, "TIMED_S", 0.0)
    for share, fits in ((0.89, True), (0.91, False)):
        monkeypatch.setattr(finders, "used_share", lambda _, share=share: share)
        assert (speed(64) is not None) == fits
    assert speed(32) is not None  # others may fill the memory


def test_all_that_a_training_keeps_is_in_memory_when_it_is_read(
    configured: Configured, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configured("network=linear", "data.residency=device")
    data = opened(config)
    made, there = [], []
    trial_step = finders.TrialStep
    place = finders._place_of_windows

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
    monkeypatch.setattr(finders, "TrialStep", lambda *a: note(trial_step(*a)))
    monkeypatch.setattr(finders, "used_share", read)
    monkeypatch.setattr(finders, "TIMED_S", 0.0)
    assert timed_speed(make_module(data), data, CPU)(64) is not None
    assert there
    assert all(there)


def test_other_errors_are_not_taken_for_a_full_memory(
    configured: Configured, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configured("network=linear")
    data = opened(config)
    module = make_module(data)

    def refuse(*_: object) -> None:
        raise RuntimeError("expected a tensor")

    monkeypatch.setattr(finders, "TrialStep", refuse)
    with pytest.raises(RuntimeError, match="expected a tensor"):
        timed_speed(module, data, CPU)(4)


def falling(knee: float, noise: float = 0.0, seed: int = 0) -> list[float]:
    """Losses over the rates of the test: a soft step down, steepest at `knee`."""
    rates = np.geomspace(LOW, HIGH, STEPS)
    rng = np.random.default_rng(seed)
    return list(0.7 - 0.4 / (1 + (knee / rates) ** 2) + noise * rng.standard_normal(STEPS))


def test_the_rates_rise_in_equal_factors_from_low_to_high():
    rates, losses = range_test(lambda rate: 1.0)
    assert (rates[0], rates[-1], len(rates)) == (LOW, pytest.approx(HIGH), STEPS)
    factors = [b / a for a, b in pairwise(rates)]
    assert factors == pytest.approx([factors[0]] * len(factors))
    assert losses == [1.0] * STEPS


@pytest.mark.parametrize("blown", [math.nan, math.inf, 50.0])
def test_the_test_ends_where_the_loss_blows_up(blown: float):
    rates, _ = range_test(lambda rate: blown if rate > 0.01 else 0.7)
    assert max(rates) == pytest.approx(0.01, rel=0.2)


@pytest.mark.parametrize("knee", [1e-4, 1e-3, 1e-2])
@pytest.mark.parametrize("seed", range(5))
def test_the_steepest_fall_is_found_under_noise(knee: float, seed: int):
    rates = np.geomspace(LOW, HIGH, STEPS)
    clear, noisy = steepest(smoothed(falling(knee))), steepest(smoothed(falling(knee, 0.02, seed)))
    assert clear is not None
    assert noisy is not None
    assert rates[clear] == pytest.approx(knee, rel=0.2)
    assert abs(math.log10(rates[noisy] / knee)) < 0.4


def test_noise_at_the_ends_is_no_fall():
    losses = falling(1e-3)
    losses[0] += 5.0
    losses[-1] -= 5.0
    assert steepest(smoothed(losses)) == steepest(smoothed(falling(1e-3)))


@pytest.mark.parametrize("losses", [[], [1.0], [float(number) for number in range(30)]])
def test_a_loss_that_never_falls_proposes_nothing(losses: list[float]):
    assert steepest(smoothed(losses)) is None


def test_both_finders_write_what_they_saw_and_chose(configured, opened, tmp_path):
    config = configured("network=linear", "data.batch_size=32")
    data = opened(config)
    module = make_module(data)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    rate, size = (
        find_rate(module, data, tmp_path, CPU),
        find_batch_size(module, data, tmp_path, CPU),
    )
    assert all((module.state_dict()[name] == value).all() for name, value in before.items())
    for name, column, found in (
        ("lr_finder", "lr", rate),
        ("batch_size_finder", "batch_size", size),
    ):
        rows = np.atleast_1d(np.genfromtxt(tmp_path / f"{name}.csv", delimiter=",", names=True))
        assert rows[column][rows["chosen"] == 1].tolist() == [found]
    assert size * EPOCH_STEPS <= max(len(data.train_samples), 32 * EPOCH_STEPS)
    for figure in (
        rate_finder(tmp_path / "lr_finder.csv"),
        batch_size_finder(tmp_path / "batch_size_finder.csv"),
    ):
        texts = [text.get_text() for text in figure.legends[0].get_texts()]
        assert any(text.startswith("chosen") for text in texts)


class Elsewhere(torch.nn.Linear):
    """Notes where it is asked to go, and has no room there."""

    went: list[torch.device] = []  # noqa: RUF012

    def to(self, device):
        self.went.append(device)
        raise torch.OutOfMemoryError


def test_both_try_on_the_device_of_the_training_and_a_network_without_room_there_does_not_fit(
    configured, opened, tmp_path
):
    config = configured("network=linear")
    data = opened(config)
    module = make_module(data)
    module.network = Elsewhere(1, 1)
    gpu = torch.device("cuda", 1)
    assert timed_speed(module, data, gpu)(4) is None
    with pytest.raises(torch.OutOfMemoryError):
        find_rate(module, data, tmp_path, gpu)
    assert Elsewhere.went == [gpu, gpu]


@pytest.fixture
def one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings take this machine for one with a GPU, while the training runs on its CPU."""
    monkeypatch.setattr("leakdet.training.settings.device_bytes", lambda _: [(10**9, 10**9)])


@pytest.mark.usefixtures("one_gpu")
def test_the_finders_are_handed_the_trainers_device(fitted, tmp_path, monkeypatch, messages):
    asked: list[torch.device] = []
    monkeypatch.setattr(
        "leakdet.training.finders.find_batch_size",
        lambda *_, device, precision: asked.append(device) or 16,
    )
    monkeypatch.setattr(
        "leakdet.training.finders.find_rate",
        lambda *_, device, precision: asked.append(device) or 1e-3,
    )
    trainer = fitted(tmp_path, "find_lr=true", "data.batch_size=0", "trainer.max_epochs=1")
    assert asked == [CPU, CPU]
    (steps,) = (text for text in messages.messages if text.startswith("steps "))
    assert "each of at most" in steps  # 16 samples, as found
    config = trainer.lightning_module.config
    assert (config.data.batch_size, config.optimizer.lr) == (16, 1e-3)
    assert trainer.datamodule.config == config


def test_several_processes_are_told_to_find_on_one_first(fitted, tmp_path):
    with pytest.raises(
        SettingsError, match=r"find_lr=true: .*this run has 2\..*then give optimizer\.lr here"
    ):
        fitted(tmp_path, "trainer=ddp", "find_lr=true")


@pytest.mark.usefixtures("one_gpu")
def test_processes_that_another_program_started_are_told_to_find_the_size_first(fitted, tmp_path):
    with pytest.raises(SettingsError, match=r"data\.batch_size=0: .*give data\.batch_size here"):
        fitted(tmp_path, "trainer=ddp", "data.batch_size=0")
