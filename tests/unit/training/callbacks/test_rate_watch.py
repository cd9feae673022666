"""A learning rate at which nothing is learnt, and a loss that stays flat."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leakdet.config import OptimizerConfig, TrainConfig
from leakdet.training import log_names
from leakdet.training.callbacks.rate_watch import flat_loss, low_rate

GUESSING = math.log(2)


def test_a_low_rate_is_told_before_the_last_tenth_only() -> None:
    finding = low_rate(9e-7, 0.5)
    assert finding is not None
    assert finding.kind == "learning_rate"
    assert low_rate(9e-7, 0.95) is None
    assert low_rate(1e-6, 0.5) is None


def history(losses: list[float], steps: int = 20) -> list[dict[str, Any]]:
    return [
        {"epoch": float(number), "step": float(steps * number), log_names.TRAIN_CLASS_LOSS: loss}
        for number, loss in enumerate(losses)
    ]


@pytest.mark.parametrize(
    ("losses", "steps", "fires"),
    [
        ([0.693] * 8, 20, True),
        ([0.9, 0.8, 0.7, 0.69, 0.695, 0.694, 0.693, 0.69], 20, True),  # large at first, then flat
        ([2.0] * 8, 20, True),  # above guessing all the time
        ([0.693] * 7, 20, False),  # three of warm-up and four
        ([0.693] * 8, 2, False),  # too few steps to learn anything
        ([0.693] * 5 + [0.66, 0.69, 0.693], 20, False),  # something was learnt
        ([0.6] * 8, 20, True),  # first weights that suit by luck
        ([0.2] * 8, 20, False),  # flat, and learnt
    ],
)
def test_a_loss_that_stays_at_guessing_is_told(
    losses: list[float], steps: int, fires: bool
) -> None:
    config = TrainConfig(optimizer=OptimizerConfig(warmup_epochs=3.0))
    finding = flat_loss(history(losses, steps), GUESSING, config)
    assert (finding is not None) == fires
    if finding:
        assert finding.kind == "flat_loss"
        assert "guessing has 0.693: nothing is learnt" in finding.text
        assert "find_lr=true" in finding.text


def test_a_training_that_cannot_learn_is_told_once(
    fitted: Callable[..., Any], tmp_path: Path
) -> None:
    """Weights that hardly move: the loss of balanced classes stays at ln 2."""
    still = (
        "optimizer.lr=0",
        "optimizer.min_lr=0",
        "optimizer.warmup_epochs=0",
        "trainer.max_epochs=8",
    )
    more = ("data.batch_size=8", "network=paper", "network.dropout=0", "patience=99")
    fitted(tmp_path, *still, *more, "callbacks.rate_watch=true", "stop.name=val")
    warnings = (tmp_path / log_names.WARNINGS).read_text(encoding="utf-8")
    assert warnings.count("flat_loss: ") == 1
