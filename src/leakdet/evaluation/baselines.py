"""Baselines that every network must beat: single traits, leak shares of groups, a linear model.

All are fitted on training recordings and score others. Pure functions on arrays; higher scores mean
leak.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from leakdet.detection.logistic import fit_coefficients, sigmoid
from leakdet.evaluation.metrics import auroc


def trait_scores(
    train: Float[np.ndarray, " A"], is_leak: Bool[np.ndarray, " A"], test: Float[np.ndarray, " B"]
) -> Float[np.ndarray, " B"]:
    """The trait as a score, its sign turned so that leaks score higher in training.

    The value itself is kept, so that scores of several folds can be pooled.
    """
    area = auroc(train, is_leak)
    return -test if area is not None and area < 0.5 else test.copy()


def group_scores(
    train: Shaped[np.ndarray, " A"], is_leak: Bool[np.ndarray, " A"], test: Shaped[np.ndarray, " B"]
) -> Float[np.ndarray, " B"]:
    """Log-odds of a leak in the recording's group over those of all; 0 for an unseen group.

    Each group is smoothed by one more recording of the average leak share.
    """
    names, number = np.unique(train, return_inverse=True)
    share = float(is_leak.mean())
    leaks = np.bincount(number, is_leak, len(names)) + share
    others = np.bincount(number, ~is_leak, len(names)) + 1.0 - share
    log_odds = np.log(leaks / others) - np.log(share / (1.0 - share))
    index = np.clip(np.searchsorted(names, test), 0, len(names) - 1)
    return np.where(names[index] == test, log_odds[index], 0.0)


@dataclass(frozen=True)
class Logistic:
    """Logistic regression on standardised features."""

    mean: Float[np.ndarray, " M"]
    deviation: Float[np.ndarray, " M"]
    coef: Float[np.ndarray, " M"]
    intercept: float

    def prob(self, features: Float[np.ndarray, "N M"]) -> Float[np.ndarray, " N"]:
        """Leak probability of each row."""
        return sigmoid((features - self.mean) / self.deviation @ self.coef + self.intercept)


def fit_logistic(
    features: Float[np.ndarray, "N M"], is_leak: Bool[np.ndarray, " N"], c: float = 1.0
) -> Logistic:
    """Minimise sum(cross-entropy) + |coef|^2 / (2 c) on standardised features; intercept free."""
    x = features.astype(np.float64)
    mean, deviation = x.mean(0), x.std(0)
    deviation = np.where(deviation > 1e-9, deviation, 1.0)
    x = np.column_stack([(x - mean) / deviation, np.ones(len(x))])
    penalty = np.append(np.full(x.shape[1] - 1, 1.0), 0.0) / (c * len(x))
    coef = fit_coefficients(x, is_leak.astype(np.float64), penalty=penalty)
    return Logistic(mean, deviation, coef[:-1], float(coef[-1]))


def mean_by(
    values: Float[np.ndarray, " N"], owner: Int[np.ndarray, " N"], owners: int
) -> Float[np.ndarray, " owners"]:
    """Mean of the values of each owner; 0 where an owner has none."""
    counts = np.bincount(owner, minlength=owners)
    return np.asarray(np.bincount(owner, values, owners) / np.maximum(1, counts))
