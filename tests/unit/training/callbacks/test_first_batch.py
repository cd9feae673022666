"""The loss of untrained weights is compared with chance."""

import math
from collections.abc import Callable
from pathlib import Path

import lightning.pytorch as pl
import pytest

from leakdet.training.callbacks.first_batch import badly_scaled

Fitted = Callable[..., pl.Trainer]
Warned = Callable[[Path], list[str]]


def test_a_badly_scaled_input(
    fitted: Fitted, warned: Warned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from leakdet.detection.networks import InputLayer

    plain = InputLayer.forward
    monkeypatch.setattr(InputLayer, "forward", lambda self, mel: 300 * plain(self, mel))
    fitted(tmp_path, "trainer.max_epochs=1")
    assert warned(tmp_path) == ["first_batch"]


@pytest.mark.parametrize(
    ("loss", "warns"), [(math.log(2), False), (1.2, False), (1.5, True), (0.2, True)]
)
def test_the_first_loss_is_within_a_factor_of_two_of_chance(loss: float, warns: bool) -> None:
    assert (badly_scaled(loss, math.log(2), 3.0) is not None) == warns
