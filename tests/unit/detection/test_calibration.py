import numpy as np
import pytest
from scipy.optimize import minimize

from leakdet.detection.calibration import MIN_SLOPE, Calibration, fit_calibration, logit, sigmoid
from leakdet.errors import SettingsError


def drawn(slope, offset, n=4000, seed=0):
    """Scores, and labels that are leaks with probability sigmoid(slope * logit(score) + offset)."""
    rng = np.random.default_rng(seed)
    scores = rng.beta(1.5, 2.5, n)
    return scores, rng.random(n) < sigmoid(slope * logit(scores) + offset)


@pytest.mark.parametrize("kind", ["platt", "temperature"])
def test_fit_is_the_maximum_likelihood_under_platts_targets(kind):
    scores, is_leak = drawn(1.6, 0.7)
    fit = fit_calibration(scores, is_leak, kind).calibration
    p, n = is_leak.sum(), (~is_leak).sum()
    target = np.where(is_leak, (p + 1) / (p + 2), 1 / (n + 2))
    columns = np.stack([logit(scores), np.ones(len(scores))], axis=1)[
        :, : 2 if kind == "platt" else 1
    ]

    def loss(coef):
        value = columns @ coef
        return np.mean(np.logaddexp(0, value) - target * value)

    best = minimize(loss, np.zeros(columns.shape[1]), method="BFGS", options={"gtol": 1e-9})
    assert [fit.slope, fit.offset][: len(best.x)] == pytest.approx(best.x, abs=1e-5)
    assert kind == "platt" or fit.offset == 0.0


def test_platt_recovers_the_curve_that_drew_the_labels():
    fit = fit_calibration(*drawn(2.0, -0.5, n=50_000), "platt").calibration
    assert (fit.slope, fit.offset) == pytest.approx((2.0, -0.5), abs=0.06)


@pytest.mark.parametrize("kind", ["platt", "temperature"])
def test_perfectly_separated_and_saturated_scores_give_a_finite_fit(kind):
    scores, is_leak = (
        np.array([0.0, 0.0, 1e-9, 1.0, 1.0]),
        np.array([False, False, False, True, True]),
    )
    fit = fit_calibration(scores, is_leak, kind).calibration
    assert np.isfinite([fit.slope, fit.offset]).all()
    assert ((fit.apply(scores) > 0.5) == is_leak).all()
    assert fit.apply(scores).max() < 0.99


@pytest.mark.parametrize("kind", ["platt", "temperature"])
def test_scores_that_rank_the_wrong_way_cannot_turn_verdicts_round(kind):
    scores, is_leak = drawn(-1.0, 0.0)
    fit = fit_calibration(scores, is_leak, kind)
    assert fit.calibration.slope == MIN_SLOPE
    assert "held at" in fit.note
    if kind == "platt":
        assert fit.calibration.apply(scores).mean() == pytest.approx(is_leak.mean(), abs=0.01)


def test_equal_scores_become_the_leak_share():
    is_leak = np.arange(1000) % 4 == 0
    fit = fit_calibration(np.full(1000, 0.9), is_leak, "platt").calibration
    assert fit.apply(np.array([0.9]))[0] == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize("leaks", [[], [True, True], [False, False]])
def test_one_class_gives_no_calibration_and_the_reason(leaks):
    fit = fit_calibration(np.full(len(leaks), 0.5), np.array(leaks, np.bool_), "platt")
    assert fit.calibration is None
    assert "both are needed" in fit.note


def test_none_asks_for_nothing_and_an_unknown_kind_is_refused():
    data = np.array([0.2, 0.8]), np.array([False, True])
    assert fit_calibration(*data, "none").calibration is None
    with pytest.raises(SettingsError, match="isotonic"):
        fit_calibration(*data, "isotonic")


def test_logit_and_sigmoid_are_inverse_and_never_overflow():
    prob = np.linspace(0.001, 0.999, 99)
    np.testing.assert_allclose(sigmoid(logit(prob)), prob, rtol=1e-13)
    assert sigmoid(np.array([-1e4, 1e4])).tolist() == [0.0, 1.0]
    assert Calibration("temperature", 1.0, 0.0).apply(prob) == pytest.approx(prob, rel=1e-12)
