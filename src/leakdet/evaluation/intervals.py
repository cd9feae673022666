"""Confidence intervals: bootstrap by recording or group, Wilson's, and paired differences.

A bootstrap replicate draws as many recordings (or whole groups) as there are, with replacement. It
is stored as how often each was drawn, and weights the rows of a ranking that is sorted once.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from leakdet.core.errors import SettingsError
from leakdet.detection.thresholds import rank
from leakdet.evaluation.metrics import RATES, auroc, binary_metrics, ratio, score_set

LEVEL = 0.95
FEW_GROUPS = 10
REPLICATES = 2000  # the same everywhere, so that one thing has one interval
# Weights in one block of replicates: 2 MB, about the size of a core's cache.
_BLOCK = 1 << 18


def wilson(hits: int, n: int, level: float = LEVEL) -> list[float] | None:
    """Wilson score interval [Wilson 1927] of the share `hits / n`; None where n is 0.

    Has a width at 0 of n and n of n too, where a bootstrap gives [0, 0] or [1, 1].

    >>> [round(end, 3) for end in wilson(0, 10)]
    [0.0, 0.278]
    """
    if n == 0:
        return None
    from scipy.special import ndtri  # scipy.stats would give the same, and take a second to import

    z, share = float(ndtri(0.5 + 0.5 * level)), hits / n
    whole = 2.0 * (n + z**2)
    centre = (2.0 * n * share + z**2) / whole
    half = z / whole * sqrt(4.0 * n * share * (1.0 - share) + z**2)
    return [centre - half if hits else 0.0, centre + half if hits < n else 1.0]


def f1_interval(tp: int, errors: int) -> list[float] | None:
    """Interval of F1 from `tp` and `errors` = FP + FN, by that of the share J = TP / (TP + errors).

    F1 = 2 J / (1 + J) rises with J.
    """
    share = wilson(tp, tp + errors)
    return None if share is None else [2.0 * end / (1.0 + end) for end in share]


def perfect_auroc_interval(auroc: float, positives: int, negatives: int) -> list[float] | None:
    """Wilson's interval of an AUROC of exactly 0 or 1, a share of independent pairs.

    As many pairs share no recording as the smaller class has recordings.

    >>> perfect_auroc_interval(1.0, 3, 40) == wilson(3, 3)
    True
    """
    pairs = min(positives, negatives)
    return wilson(round(auroc * pairs), pairs)


@dataclass(frozen=True)
class Resampling:
    """The unit of each row (None: rows are drawn one by one), and what units are called."""

    unit_of_row: Int[np.ndarray, " N"] | None
    units: int
    name: str

    @property
    def none_drawn(self) -> str:
        """Reason for which there is no interval."""
        return f"no interval can be drawn from {self.units} {self.name}"

    def draws(self, rows: int, replicates: int, seed: int) -> Iterator[Int[np.ndarray, "B N"]]:
        """Weights of the rows in blocks of replicates."""
        for times in self._drawn(max(rows, self.units), replicates, seed):
            yield times if self.unit_of_row is None else np.take(times, self.unit_of_row, axis=1)

    def sums(
        self, columns: Shaped[np.ndarray, "N K"], replicates: int, seed: int = 0
    ) -> Float[np.ndarray, "B K"]:
        """Sums of the columns over the rows of each replicate, as `draws` weights them.

        Rows of a unit are added up once: what is drawn are units.
        """
        of_units = columns.astype(np.float64)
        if self.unit_of_row is not None:
            of_units = np.zeros((self.units, columns.shape[1]))
            np.add.at(of_units, self.unit_of_row, columns)
        drawn = self._drawn(max(columns.shape[0], self.units), replicates, seed)
        return np.concatenate([times.astype(np.float64) @ of_units for times in drawn])

    def _drawn(self, size: int, replicates: int, seed: int) -> Iterator[Int[np.ndarray, "B U"]]:
        """How often units are drawn, in blocks; the block size does not affect the draws."""
        if replicates < 1:
            raise SettingsError(
                f"A bootstrap needs at least 1 replicate; {replicates} were asked for."
            )
        rng = np.random.default_rng(seed)
        most = max(1, _BLOCK // size)
        for start in range(0, replicates, most):
            block = min(most, replicates - start)
            drawn = rng.integers(0, self.units, size=(block, self.units))
            drawn += self.units * np.arange(block)[:, None]
            times = np.bincount(drawn.ravel(), minlength=block * self.units)
            yield times.reshape(block, self.units)


def resampling(rows: int, groups: np.ndarray | None) -> Resampling:
    if groups is None:
        return Resampling(None, rows, "recordings")
    if len(groups) != rows:
        raise ValueError(f"{rows} scores have {len(groups)} groups")
    names, unit_of_row = np.unique(groups, return_inverse=True)
    return Resampling(unit_of_row, len(names), "groups")


def bootstrap_intervals(
    scores: Float[np.ndarray, " N"],
    is_leak: Bool[np.ndarray, " N"],
    threshold: float,
    groups: Shaped[np.ndarray, " N"] | None = None,
    *,
    replicates: int = REPLICATES,
    seed: int = 0,
    probabilities: bool = True,
    only: Collection[str] = (),
) -> dict[str, Any]:
    """95 % percentile bootstrap intervals [Efron and Tibshirani 1993] of `metrics.RATES`.

    Rows are drawn one by one, or whole `groups` at a time where given: the site of a recording, or,
    for the metrics of windows, the recording of a window. The threshold is not fitted again.

    Returns {key: [low, high]}, None where the metric or more than half of its replicates are
    undefined, and `note`: None, or what limits the intervals. The order of the rows does not
    matter. Takes O(replicates * N) time and O(N) memory. Raises what `metrics.binary_metrics`
    raises.
    """
    point = binary_metrics(scores, is_leak, threshold, probabilities=probabilities)
    keys = [key for key in only or RATES if point[key] is not None]
    ranking = rank(scores, is_leak, probabilities=probabilities)
    plan = resampling(len(scores), None if groups is None else groups[ranking.order])
    intervals: dict[str, Any] = dict.fromkeys(RATES)
    if plan.units < 2 or not keys:
        return intervals | {"note": plan.none_drawn}
    blocks = []
    for weights in plan.draws(len(scores), replicates, seed):
        # Without groups all rows are drawn alike, so the weights need no sorting.
        rows = score_set(ranking, threshold, weights)
        blocks.append({key: RATES[key](rows) for key in keys})
    lost = []
    for key in keys:
        values = np.concatenate([block[key] for block in blocks])
        intervals[key] = percentile_interval(values)
        lost += _lost(key, values)
    return intervals | {"note": resampling_note(plan, lost, replicates)}


def share_intervals(
    shares: Mapping[str, tuple[Bool[np.ndarray, " N"], Bool[np.ndarray, " N"]]],
    groups: Shaped[np.ndarray, " N"] | None = None,
    replicates: int = REPLICATES,
    recording: Int[np.ndarray, " N"] | None = None,
) -> dict[str, Any]:
    """`bootstrap_intervals` of shares: the rows that are hits, and those of which they are a share.

    Wilson's where all replicates are alike, of as many recordings as there are: `recording` numbers
    that of each row where several are of one. None where a share has no rows.
    """
    columns = np.stack([column for pair in shares.values() for column in pair], axis=1)
    order = np.lexsort(columns.T)  # so that the order of the rows does not matter
    plan = resampling(len(columns), None if groups is None else groups[order])
    if plan.units < 2:
        return dict.fromkeys(shares) | {"note": plan.none_drawn}
    sums = plan.sums(columns[order], replicates)
    drawn = ratio(sums[:, ::2], sums[:, 1::2])
    intervals: dict[str, Any] = {}
    for (key, (hits, of)), values in zip(shares.items(), drawn.T, strict=True):
        ends = percentile_interval(values) if of.any() else None
        if ends is not None and ends[0] == ends[1]:
            n = int(of.sum()) if recording is None else len(np.unique(recording[of]))
            ends = wilson(round(n * float(hits.sum() / of.sum())), n)
        intervals[key] = ends
    return intervals | {"note": resampling_note(plan, [], replicates)}


def percentile_interval(values: np.ndarray) -> list[float] | None:
    defined = values[~np.isnan(values)]
    if 2 * len(defined) < len(values):
        return None
    return [float(end) for end in np.quantile(defined, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0])]


def _lost(key: str, values: np.ndarray) -> list[str]:
    """Count the replicates that leave a metric undefined, if any."""
    count = int(np.isnan(values).sum())
    return [f"{key} in {count}"] if count else []


def resampling_note(plan: Resampling, lost: list[str], replicates: int) -> str | None:
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
    replicates: int = REPLICATES,
) -> dict[str, Any]:
    """Metric of model b minus that of model a on the same rows, with an interval of the difference.

    `metric` is a key of `metrics.RATES`, the scores are probabilities, each model has its own
    threshold; `groups` as in `bootstrap_intervals`.

    Returns {"metric", "a", "b", "difference", "interval": [low, high], "note"}; None where
    undefined. The difference is significant at 5 % where the interval excludes 0. Raises
    `SettingsError` on an unknown metric.
    """
    if metric not in RATES:
        raise SettingsError(f"The metric to compare is {metric!r}; allowed are {', '.join(RATES)}.")
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
    plan = resampling(len(is_leak), groups)
    if plan.units < 2:
        return result | {"difference": b - a, "note": plan.none_drawn}
    sides = [(rank(scores_a, is_leak), threshold_a), (rank(scores_b, is_leak), threshold_b)]
    blocks = []
    for weights in plan.draws(len(is_leak), replicates, seed=0):
        of_a, of_b = (
            RATES[metric](score_set(ranking, at, np.take(weights, ranking.order, axis=1)))
            for ranking, at in sides
        )
        blocks.append(of_b - of_a)
    values = np.concatenate(blocks)
    return result | {
        "difference": b - a,
        "interval": percentile_interval(values),
        "note": resampling_note(plan, _lost(metric, values), replicates),
    }


def auroc_with_interval(
    scores: Float[np.ndarray, " N"],
    is_leak: Bool[np.ndarray, " N"],
    units: Shaped[np.ndarray, " N"] | None,
    replicates: int = REPLICATES,
) -> dict[str, Any]:
    """`{"auroc", "interval"}` of any finite scores; None where a class is missing."""
    area = auroc(scores, is_leak)
    if area is None:
        return {"auroc": None, "interval": None}
    interval = bootstrap_intervals(
        scores, is_leak, 0.0, units, replicates=replicates, probabilities=False, only=("auroc",)
    )["auroc"]
    if area in (0.0, 1.0) and interval is not None:  # all replicates agree, however few rows
        interval = perfect_auroc_interval(area, int(is_leak.sum()), int((~is_leak).sum()))
    return {"auroc": area, "interval": interval}
