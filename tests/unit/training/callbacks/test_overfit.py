"""A network that memorises is told by the third check, and noise is not taken for it."""

from typing import Any

import numpy as np
import pytest

from leakdet.training import log_names
from leakdet.training.callbacks.overfit import overfit


def history(losses: list[float], rates: list[float | None]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{log_names.TRAIN_LOSS: loss} for loss in losses]
    for row, rate in zip(rows, rates, strict=True):
        if rate is not None:
            row[log_names.VAL_TPR_LEAST_FPR] = rate
    return rows


FALLING = [0.5, 0.4, 0.3, 0.2]


@pytest.mark.parametrize(
    ("losses", "rates", "leaks", "fires"),
    [
        (FALLING[:3], [0.798, 0.777, 0.0], 400, True),
        (FALLING, [0.798, 0.777, 0.0, 0.0], 400, True),
        (FALLING[:2], [0.798, 0.0], 400, False),  # two checks tell nothing yet
        (FALLING, [0.5, 0.8, 0.4, 0.0], 40, True),  # from the best check on
        (FALLING, [0.9, 0.8, 0.7, 0.8], 400, False),  # it rose again
        ([0.5, 0.4, 0.4], [0.8, 0.7, 0.0], 400, False),  # the loss does not fall
        (FALLING[:3], [0.8, 0.6, 0.4], 5, False),  # two of five leaks: luck
        (FALLING[:3], [1.0, 0.5, 0.0], 10, True),
        (FALLING, [None] * 4, 40, False),
    ],
)
def test_the_finding_needs_three_checks_and_a_fall_beyond_luck(
    losses: list[float], rates: list[float | None], leaks: int, fires: bool
) -> None:
    assert (overfit(history(losses, rates), leaks) is not None) == fires


@pytest.mark.parametrize("leaks", [5, 30, 400])
def test_noise_around_a_level_is_no_overfitting(leaks: int) -> None:
    """Of 200 runs of 40 checks whose true rate stays at 0.7, at most 5 % are accused."""
    rng, accused = np.random.default_rng(0), 0
    losses = np.linspace(0.7, 0.1, 40).tolist()
    for _ in range(200):
        rates = (rng.binomial(leaks, 0.7, 40) / leaks).tolist()
        rows = history(losses, rates)
        accused += any(overfit(rows[:count], leaks) is not None for count in range(1, 41))
    assert accused <= 10


def test_the_text_names_both_falls() -> None:
    found = overfit(history(FALLING, [0.798, 0.777, 0.0, 0.0]), 400)
    assert found is not None
    assert "in 4 checks in a row (0.500 to 0.200)" in found.text
    assert "(0.798 to 0.000)" in found.text
