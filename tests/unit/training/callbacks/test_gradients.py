"""Gradients that explode, vanish or are not finite are told with their cause."""

import math
from collections.abc import Callable
from pathlib import Path

import lightning.pytorch as pl
import numpy as np
import pytest

from leakdet.errors import LeakdetError
from leakdet.training.callbacks.gradients import bad_gradients

Fitted = Callable[..., pl.Trainer]
Warned = Callable[[Path], list[str]]
FOUR = ("trainer.max_epochs=4", "loss_patience=0")


def test_an_exploding_gradient_ends_with_its_cause(
    fitted: Fitted, warned: Warned, tmp_path: Path
) -> None:
    with pytest.raises(LeakdetError, match=r"validation loss is (nan|inf).*Lower optimizer\.lr"):
        fitted(tmp_path, *FOUR, "optimizer.lr=1e30", "optimizer.warmup_epochs=0")
    assert warned(tmp_path) == ["gradient"]


@pytest.mark.parametrize(
    ("norms", "text"),
    [
        ([1.0, 2.0], None),
        ([1.0, math.nan], "1 of 2 gradients were not finite"),
        ([1e6, 1e5], "explode"),
        ([1e-9, 0.0], "vanish"),
    ],
)
def test_norms_are_judged_by_their_mean(norms: list[float], text: str | None) -> None:
    finding = bad_gradients(np.array(norms), clipped_at=1.0)
    assert (text in finding.text) if text and finding else finding is None is text
