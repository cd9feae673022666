"""A network that memorises is told after three checks in a row."""

from leakdet.training.callbacks.overfit import overfit


def test_overfit_needs_three_checks_in_a_row() -> None:
    falling = [0.5, 0.4, 0.3, 0.2]
    assert overfit([0.9, *falling], [0.5, 0.9, 0.8, 0.7, 0.6]).kind == "overfit"
    assert overfit(falling[:3], [0.9, 0.8, 0.7]) is None
    assert overfit(falling, [0.9, 0.8, 0.8, 0.6]) is None
    assert overfit([0.5, 0.4, 0.4, 0.2], [0.9, 0.8, 0.7, 0.6]) is None
    assert overfit(falling, [None] * 4) is None
