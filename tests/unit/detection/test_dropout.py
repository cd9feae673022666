"""Dropout is torch's in all but its cost."""

import math

import pytest
import torch
from torch import nn

from leakdet.detection.dropout import STEPS, Dropout


@pytest.mark.parametrize("p", [0.1, 0.25, 0.5, 0.9])
def test_the_share_that_is_dropped_and_the_scale_of_the_rest(p: float) -> None:
    numbers = torch.full((1001, 333), 2.0)
    dropped = Dropout(p)(numbers)
    share = float((dropped == 0).double().mean())
    assert share == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / numbers.numel()))
    kept = dropped[dropped != 0]
    torch.testing.assert_close(
        kept, torch.full_like(kept, 2.0 / (1 - p)), rtol=2 / STEPS / (1 - p), atol=0.0
    )


def test_elements_are_dropped_independently_of_each_other_and_of_their_position() -> None:
    """Four elements share a random word, but neighbours up to 8 apart are uncorrelated, and columns
    have equal shares.
    """
    dropped = (Dropout(0.25)(torch.ones(4000, 64)) == 0).double()
    flat = dropped.flatten() - dropped.mean()
    for apart in range(1, 9):
        correlation = float((flat[apart:] * flat[:-apart]).mean() / flat.square().mean())
        assert abs(correlation) < 5 / math.sqrt(flat.numel())
    assert (dropped.mean(0) - 0.25).abs().max() < 5 * math.sqrt(0.25 * 0.75 / 4000)


def test_the_gradient_passes_where_the_number_did() -> None:
    numbers = torch.randn(7, 13, requires_grad=True)
    dropped = Dropout(0.25)(numbers)
    dropped.sum().backward()
    assert numbers.grad is not None
    torch.testing.assert_close(numbers.grad * numbers, dropped)


def test_the_seed_decides() -> None:
    layer, masks = Dropout(0.5), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        masks.append(layer(torch.ones(100)))
    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_all_or_nothing_is_torchs(p: float) -> None:
    numbers = torch.randn(10)
    assert torch.equal(Dropout(p)(numbers), nn.Dropout(p)(numbers))


def test_nothing_is_dropped_outside_training_and_the_type_stays() -> None:
    layer = Dropout(0.25)
    assert layer(torch.ones(5, dtype=torch.bfloat16)).dtype == torch.bfloat16
    numbers = torch.randn(5)
    assert torch.equal(layer.eval()(numbers), numbers)
