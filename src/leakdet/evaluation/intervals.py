"""How far a metric may be trusted: bootstrap intervals by recording or group, two models on the same rows.

A replicate draws as many recordings (or whole groups) as there are, with replacement. It is held as how often
each was drawn, and weights the rows of a ranking that is sorted once.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Shaped

from leakdet.detection.ranking import rank
from leakdet.errors import SettingsError
from leakdet.evaluation.metrics import RATES, binary_metrics, metric_values, sample

FEW_GROUPS = 10
# Numbers in one block of replicates: 2 MB, about what a core's cache holds.
_BLOCK = 1 << 18


@dataclass(frozen=True)
class _Resampling:
    """Which unit each row belongs to (None: a unit of its own), and what the units are called."""

    unit_of_row: np.ndarray | None
    units: int
    name: str

    def draws(self, rows: int, replicates: int, seed: int) -> Iterator[np.ndarray]:
        """Weights [B, N] of the rows, in blocks of replicates; the size of a block changes no draw."""
        rng = np.random.default_rng(seed)
        size = max(1, _BLOCK // max(rows, self.units))
        for start in range(0, replicates, size):
            block = min(size, replicates - start)
            drawn = rng.integers(0, self.units, size=(block, self.units))
            drawn += self.units * np.arange(block)[:, None]
            times = np.bincount(drawn.ravel(), minlength=block * self.units).reshape(
                block, self.units
            )
            yield times if self.unit_of_row is None else np.take(times, self.unit_of_row, axis=1)


def _resampling(rows: int, groups: np.ndarray | None) -> _Resampling:
    if groups is None:
        return _Resampling(None, rows, "recordings")
    if len(groups) != rows:
        raise ValueError(f"{rows} scores have {len(groups)} groups")
    names, unit_of_row = np.unique(groups, return_inverse=True)
    return _Resampling(unit_of_row, len(names), "groups")


def bootstrap_intervals(
    scores: Float[np.ndarray, " N"],
    is_leak: Bool[np.ndarray, " N"],
    threshold: float,
    groups: Shaped[np.ndarray, " N"] | None = None,
    *,
    replicates: int = 2000,
    seed: int = 0,
    level: float = 0.95,
    probabilities: bool = True,
    only: Collection[str] = (),
) -> dict[str, Any]:
    """Percentile bootstrap intervals [Efron and Tibshirani 1993] of every metric in `metrics.RATES`, or of those in `only`.

    Rows are drawn one by one, or whole `groups` at a time where given: the site of a recording, or, for the
    metrics of windows, the recording of a window. The threshold stays as it is.

    Returns {key: [low, high]}, None where the metric itself is undefined or more than half of the replicates
    leave it so, and `note`: None, or what limits the intervals. Does not depend on the order of the rows.
    Work and memory are O(replicates * N) and O(N). Raises `SettingsError` on less than 1 replicate or a level
    outside (0, 1), and as `metrics.binary_metrics`.
    """
    _check_level(replicates, level)
    point = binary_metrics(scores, is_leak, threshold, probabilities=probabilities)
    keys = [key for key in only or RATES if point[key] is not None]
    ranking = rank(scores, is_leak, probabilities=probabilities)
    plan = _resampling(len(scores), None if groups is None else groups[ranking.order])
    intervals: dict[str, Any] = dict.fromkeys(RATES)
    if plan.units < 2 or not keys:
        return intervals | {"note": f"no interval can be drawn from {plan.units} {plan.name}"}
    # Rows are drawn in sorted order: without groups any row is as good as another, so no weight has to be
    # moved.
    blocks = [
        metric_values(sample(ranking, threshold, weights), keys)
        for weights in plan.draws(len(scores), replicates, seed)
    ]
    lost = []
    for key in keys:
        values = np.concatenate([block[key] for block in blocks])
        intervals[key] = _percentile_interval(values, level)
        if np.isnan(values).any():
            lost.append(f"{key} in {int(np.isnan(values).sum())}")
    return intervals | {"note": _note(plan, lost, replicates)}


def _check_level(replicates: int, level: float) -> None:
    if replicates < 1 or not 0.0 < level < 1.0:
        raise SettingsError(
            f"A bootstrap of {replicates} replicates at level {level}: at least 1, a level between 0 and 1."
        )


def _percentile_interval(values: np.ndarray, level: float) -> list[float] | None:
    defined = values[~np.isnan(values)]
    if 2 * len(defined) < len(values):
        return None
    return [float(end) for end in np.quantile(defined, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])]


def _note(plan: _Resampling, lost: list[str], replicates: int) -> str | None:
    notes = []
    if plan.units < FEW_GROUPS:
        notes.append(f"the intervals rest on {plan.units} {plan.name} only and are too narrow")
    if lost:
        notes.append(f"undefined, and left out: {', '.join(lost)} of {replicates} replicates")
    return "; ".join(notes) or None


def paired_difference(
    scores_a: Float[np.ndarray, " N"],
    scores_b: Float[np.ndarray, " N"],
    is_leak: Bool[np.ndarray, " N"],
    metric: str,
    *,
    threshold_a: float,
    threshold_b: float,
    groups: Shaped[np.ndarray, " N"] | None = None,
    replicates: int = 2000,
    seed: int = 0,
    level: float = 0.95,
) -> dict[str, Any]:
    """Metric of model b minus that of model a on the same rows, with an interval: both see each replicate.

    `metric` is a key of `metrics.RATES`, the scores are probabilities, each model has its own threshold;
    `groups` as in `bootstrap_intervals`.

    Returns {"metric", "a", "b", "difference", "interval": [low, high], "note"}; None where undefined. The
    difference is beyond chance at this level where the interval does not hold 0. Raises `SettingsError` on an
    unknown metric.
    """
    if metric not in RATES:
        raise SettingsError(f"The metric to compare is {metric!r}; allowed are {', '.join(RATES)}.")
    _check_level(replicates, level)
    a = binary_metrics(scores_a, is_leak, threshold_a)[metric]
    b = binary_metrics(scores_b, is_leak, threshold_b)[metric]
    result: dict[str, Any] = {
        "metric": metric,
        "a": a,
        "b": b,
        "difference": None,
        "interval": None,
        "note": None,
    }
    if a is None or b is None:
        return result | {"note": f"{metric} is undefined for {'a' if a is None else 'b'}"}
    plan = _resampling(len(is_leak), groups)
    if plan.units < 2:
        note = f"no interval can be drawn from {plan.units} {plan.name}"
        return result | {"difference": b - a, "note": note}
    sides = [(rank(scores_a, is_leak), threshold_a), (rank(scores_b, is_leak), threshold_b)]
    blocks = []
    for weights in plan.draws(len(is_leak), replicates, seed):
        of_a, of_b = (
            RATES[metric](sample(ranking, at, np.take(weights, ranking.order, axis=1)))
            for ranking, at in sides
        )
        blocks.append(of_b - of_a)
    values = np.concatenate(blocks)
    lost = [f"{metric} in {int(np.isnan(values).sum())}"] if np.isnan(values).any() else []
    interval = _percentile_interval(values, level)
    return result | {
        "difference": b - a,
        "interval": interval,
        "note": _note(plan, lost, replicates),
    }


def mcnemar(
    correct_a: Bool[np.ndarray, " N"], correct_b: Bool[np.ndarray, " N"]
) -> dict[str, int | float]:
    """McNemar's exact test whether two models err equally often on the same recordings.

    Returns {"only_a", "only_b", "p_value"}: recordings that only one model gets right, and the two-sided
    binomial probability of a split at least as uneven, min(1, 2 P(X <= min)) with X ~ B(only_a + only_b,
    1/2). Recordings of one site are not independent: there the p-value is too small, and the interval of
    `paired_difference` by group is the better guide.
    """
    only_a = int(np.count_nonzero(correct_a & ~correct_b))
    only_b = int(np.count_nonzero(correct_b & ~correct_a))
    n, least = only_a + only_b, min(only_a, only_b)
    i = np.arange(least, dtype=np.float64)
    log_choose = np.concatenate(([0.0], np.cumsum(np.log((n - i) / (i + 1.0)))))
    tail = float(np.exp(np.logaddexp.reduce(log_choose) - n * np.log(2.0)))
    return {"only_a": only_a, "only_b": only_b, "p_value": min(1.0, 2.0 * tail)}
