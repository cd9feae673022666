import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from leakdet.core.errors import InputError, SettingsError
from leakdet.detection.calibration import (
    MIN_SLOPE,
    Calibration,
    fit_calibration,
    fit_coefficients,
    logit,
    sigmoid,
)


def test_logit_and_sigmoid_are_inverse_and_never_overflow():
    prob = np.linspace(0.001, 0.999, 99)
    np.testing.assert_allclose(sigmoid(logit(prob)), prob, rtol=1e-13)
    assert sigmoid(np.array([-1e4, 1e4])).tolist() == [0.0, 1.0]
    assert logit(np.array([0.0, 1.0], np.float32)) == pytest.approx([-17.33, 17.33], abs=0.01)


@given(st.lists(st.floats(-700, 700), min_size=1))
def test_sigmoid_is_scipys(values: list[float]):
    np.testing.assert_allclose(sigmoid(np.array(values)), expit(values), rtol=1e-12)


def gradient(
    columns: np.ndarray, target: np.ndarray, coef: np.ndarray, base: np.ndarray | float = 0.0
) -> np.ndarray:
    return columns.T @ (expit(base + columns @ coef) - target) / len(target)


@given(st.integers(0, 2**32 - 1), st.integers(3, 60), st.integers(1, 4))
@settings(max_examples=30)
def test_the_gradient_vanishes_at_the_fit(seed: int, rows: int, count: int):
    rng = np.random.default_rng(seed)
    columns, target = rng.normal(size=(rows, count)), rng.uniform(0.02, 0.98, rows)
    base = rng.normal(size=rows)
    coef = fit_coefficients(columns, target, base=base)
    assert np.abs(gradient(columns, target, coef, base)).max() < 1e-7


def test_proportional_columns_share_the_fit():
    """As those of equal scores and an intercept: the curve is fitted, and the coefficients stay
    finite.
    """
    ones = np.ones((8, 1))
    coef = fit_coefficients(np.hstack([ones, 3.0 * ones]), np.full(8, 0.2))
    assert expit(coef @ [1.0, 3.0]) == pytest.approx(0.2, abs=1e-8)
    assert np.abs(coef).max() < 5.0


def test_with_a_penalty_it_is_scikit_learns():
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(60, 3))
    target = (columns[:, 0] + rng.normal(size=60) > 0.0).astype(np.float64)
    reference = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-10).fit(columns, target)
    coef = fit_coefficients(columns, target, penalty=1.0 / (2.0 * 60))
    np.testing.assert_allclose(coef, reference.coef_[0], atol=1e-5)


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


@given(st.floats(0.01, 20.0), st.floats(-10.0, 10.0), st.sampled_from(["platt", "temperature"]))
def test_a_higher_score_is_never_a_lower_probability(slope: float, offset: float, kind: str):
    scores = np.linspace(0.0, 1.0, 101)
    prob = Calibration(kind, slope, offset).apply(scores)
    assert (np.diff(prob) >= 0.0).all()
    assert ((prob >= 0.0) & (prob <= 1.0)).all()
    assert Calibration("temperature", 1.0, 0.0).apply(scores) == pytest.approx(scores, abs=1e-7)


def test_a_calibration_comes_back_from_json_and_nothing_else_does():
    calibration = Calibration("platt", 1.5, -0.25)
    assert Calibration.from_json(calibration.to_json()) == calibration
    for broken in ({}, {"kind": "platt", "slope": 1.0}, {**calibration.to_json(), "x": 1}, None):
        with pytest.raises(InputError, match="kind"):
            Calibration.from_json(broken)
    for slope in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(SettingsError, match="slope"):
            Calibration("platt", slope, 0.0)
