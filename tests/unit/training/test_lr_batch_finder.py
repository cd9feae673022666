import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from leakdet.errors import SettingsError
from leakdet.reporting.training_figures import batch_size_finder, rate_finder
from leakdet.training.batch_size_finder import EPOCH_STEPS, find_batch_size, timed_speed
from leakdet.training.fit import make_module
from leakdet.training.lr_batch_finder import (
    HIGH,
    LOW,
    STEPS,
    find_rate,
    range_test,
    smoothed,
    steepest,
)

CPU = torch.device("cpu")


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
    module = make_module(config, data)
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
    module = make_module(config, data)
    module.network = Elsewhere(1, 1)
    gpu = torch.device("cuda", 1)
    assert timed_speed(module, data, gpu)(4) is None
    with pytest.raises(torch.OutOfMemoryError):
        find_rate(module, data, tmp_path, gpu)
    assert Elsewhere.went == [gpu, gpu]


def test_the_finders_are_handed_the_trainers_device(fitted, tmp_path, monkeypatch, messages):
    asked: list[torch.device] = []
    monkeypatch.setattr(
        "leakdet.training.lr_batch_finder.find_batch_size",
        lambda *_, device, precision: asked.append(device) or 16,
    )
    monkeypatch.setattr(
        "leakdet.training.lr_batch_finder.find_rate",
        lambda *_, device, precision: asked.append(device) or 1e-3,
    )
    fitted(tmp_path, "find_lr=true", "find_batch_size=true", "trainer.max_epochs=1")
    assert asked == [CPU, CPU]
    (steps,) = (text for text in messages.messages if text.startswith("steps "))
    assert "each of at most" in steps  # 16 samples, as found


def test_several_processes_are_told_to_find_on_one_first(fitted, tmp_path):
    with pytest.raises(
        SettingsError, match=r"find_lr=true: .*this run has 2\..*then give optimizer\.lr here"
    ):
        fitted(tmp_path, "trainer=ddp", "find_lr=true")
