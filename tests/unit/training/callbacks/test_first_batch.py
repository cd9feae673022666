"""The loss of untrained weights is compared with chance."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch

from leakdet.config import NetworkConfig
from leakdet.detection.networks import Output
from leakdet.training import log_names
from leakdet.training.callbacks.first_batch import head_numbers, off_chance

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
    assert (off_chance(loss, math.log(2), 3.0, 1.0, NetworkConfig()) is not None) == warns


@pytest.mark.parametrize(
    ("settings", "input_std", "says", "never"),
    [
        ({"standardise": False}, 20.0, "Set network.standardise=true.", "level_free"),
        (
            {"standardise": False, "input_norm": "none"},
            20.0,
            "Set network.standardise=true and network.input_norm=level_free.",
            "well scaled",
        ),
        ({}, 20.0, "silent, constant or damaged recordings", "standardise=true"),
        ({}, 1.1, "the input is well scaled", "standardise"),
    ],
)
def test_advice_goes_by_what_is_set_and_measured(
    settings: dict[str, Any], input_std: float, says: str, never: str
) -> None:
    found = off_chance(3.4, math.log(2), 7.0, input_std, NetworkConfig(**settings))
    assert found is not None
    assert says in found.text
    assert never not in found.text


def test_range_and_predicted_mix_of_both_heads() -> None:
    output = Output(torch.tensor([[3.0, -1.0], [0.5, 2.0]]), torch.tensor([-4.0, 1.0]))
    numbers = head_numbers(output, leaks=(0,), both=True)
    assert numbers == {
        "first_batch/lowest_logit": -1.0,
        "first_batch/highest_logit": 3.0,
        "first_batch/lowest_leak_logit": -4.0,
        "first_batch/highest_leak_logit": 1.0,
        "first_batch/predicted_leak_share": 0.5,
        "first_batch/predicted_leak_share_of_leak_head": 0.5,
    }
    only_class = head_numbers(output, leaks=(0,), both=False)
    assert log_names.FIRST_PREDICTED_LEAKS not in only_class
