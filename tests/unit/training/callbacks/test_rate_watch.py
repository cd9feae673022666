"""A learning rate at which nothing is learnt."""

from leakdet.training.callbacks.rate_watch import low_rate


def test_a_low_rate_is_told_before_the_last_tenth_only() -> None:
    finding = low_rate(9e-7, 0.5)
    assert finding is not None
    assert finding.kind == "learning_rate"
    assert low_rate(9e-7, 0.95) is None
    assert low_rate(1e-6, 0.5) is None
