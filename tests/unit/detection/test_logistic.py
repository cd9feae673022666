import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from leakdet.detection.logistic import fit_coefficients, logit, sigmoid


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
