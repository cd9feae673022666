"""Log-odds, and the maximum-likelihood fit of a logistic curve."""

import numpy as np
from jaxtyping import Float

# Half a float32 step below 1: network probabilities saturate there. Log-odds stay within 17.3.
SATURATION = 2.0**-25
# keeps the fit unique where columns are proportional to each other [Lin, Lin and Weng 2007]
MIN_PENALTY = 1e-12


def logit(prob: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """Log-odds in float64; probabilities 0 and 1 give ±17.3."""
    inside = np.clip(prob.astype(np.float64, copy=False), SATURATION, 1.0 - SATURATION)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def sigmoid(log_odds: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """Probability of log-odds; never overflows."""
    small = np.exp(-np.abs(log_odds))
    return np.asarray(np.where(log_odds >= 0.0, 1.0, small) / (1.0 + small))


def fit_coefficients(
    columns: Float[np.ndarray, "N K"],
    target: Float[np.ndarray, " N"],
    *,
    base: Float[np.ndarray, " N"] | float = 0.0,
    penalty: Float[np.ndarray, " K"] | float = 0.0,
) -> Float[np.ndarray, " K"]:
    """Coefficients of `sigmoid(base + columns @ coef)` that fit targets in [0, 1] best.

    They minimise the mean cross-entropy plus `penalty @ coef**2 / 2`.
    """
    from scipy.optimize import minimize  # slow to import, and scoring never fits

    rows, count = columns.shape
    ridge = np.broadcast_to(penalty, count) + MIN_PENALTY

    def loss(coef: np.ndarray) -> float:
        value = base + columns @ coef
        return float(np.mean(np.logaddexp(0.0, value) - target * value) + 0.5 * ridge @ coef**2)

    def gradient(coef: np.ndarray) -> np.ndarray:
        slope = columns.T @ (sigmoid(base + columns @ coef) - target) / rows
        return np.asarray(slope + ridge * coef)

    def hessian(coef: np.ndarray) -> np.ndarray:
        prob = sigmoid(base + columns @ coef)
        return np.asarray((columns.T * (prob * (1.0 - prob))) @ columns / rows + np.diag(ridge))

    # ends with "bad approximation" where floating point resolves no better minimum
    fit = minimize(
        loss,
        np.zeros(count),
        jac=gradient,
        hess=hessian,
        method="trust-exact",
        options={"gtol": 1e-10},
    )
    return np.asarray(fit.x)
