"""Exact metrics of leak against the rest, with a reason for each that the rows leave undefined.

Recordings and windows, one set of scores and thousands of bootstrap replicates share these
functions: each reads weighted counts at the cuts of one `Ranking`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from leakdet.detection.thresholds import COUNT_SLACK, Cuts, Ranking, rank

FPR_POINTS = (0.1, 0.01, 0.001, 0.0001)
TPR_POINTS = (0.5, 0.85, 0.95)
ECE_BINS = 15

COUNTS = ("n", "positives", "negatives", "predicted_positives", "tp", "fp", "fn", "tn")


@dataclass(frozen=True)
class ScoreSet:
    """`N` labelled scores under `B` weightings; `tp` and `fp` count at the threshold."""

    ranking: Ranking
    weights: Int[np.ndarray, "B N"]
    cuts: Cuts
    tp: Int[np.ndarray, " B"]
    fp: Int[np.ndarray, " B"]

    @property
    def positives(self) -> Int[np.ndarray, " B"]:
        return self.cuts.positives

    @property
    def negatives(self) -> Int[np.ndarray, " B"]:
        return self.cuts.negatives

    @property
    def n(self) -> Int[np.ndarray, " B"]:
        return np.asarray(self.positives + self.negatives)


Metric = Callable[[ScoreSet], np.ndarray]


def score_set(
    ranking: Ranking, threshold: float, weights: Int[np.ndarray, "B N"] | None = None
) -> ScoreSet:
    """Cut at `score >= threshold`; weights are in sorted order, None counts each row once."""
    if weights is None:
        weights = np.ones((1, len(ranking.scores)), np.int64)
    cuts, cut = ranking.cuts(weights), ranking.cut(threshold)
    return ScoreSet(ranking, weights, cuts, cuts.tp[:, cut], cuts.fp[:, cut])


def ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Divide, giving NaN where the denominator is 0."""
    undefined = np.full(np.broadcast_shapes(np.shape(part), np.shape(whole)), np.nan)
    return np.asarray(np.divide(part, whole, out=undefined, where=whole > 0))


def _accuracy(s: ScoreSet) -> np.ndarray:
    return ratio(s.tp + s.negatives - s.fp, s.n)


def _balanced_accuracy(s: ScoreSet) -> np.ndarray:
    return np.asarray(0.5 * (_recall(s) + _specificity(s)))


def _precision(s: ScoreSet) -> np.ndarray:
    return ratio(s.tp, s.tp + s.fp)


def _recall(s: ScoreSet) -> np.ndarray:
    return ratio(s.tp, s.positives)


def _specificity(s: ScoreSet) -> np.ndarray:
    return ratio(s.negatives - s.fp, s.negatives)


def _fpr(s: ScoreSet) -> np.ndarray:
    return ratio(s.fp, s.negatives)


def _f1(s: ScoreSet) -> np.ndarray:
    """2 TP / (2 TP + FP + FN): 0 where no leak is predicted, undefined without leaks."""
    return np.where(s.positives > 0, ratio(2.0 * s.tp, s.positives + s.tp + s.fp), np.nan)


def _auroc(s: ScoreSet) -> np.ndarray:
    """Mann-Whitney: the share of pairs in which the leak scores higher, ties counting half."""
    higher = s.cuts.tp[:, :-1] + s.cuts.tp[:, 1:]
    pairs = 0.5 * np.einsum("bc,bc->b", np.diff(s.cuts.fp, axis=1), higher)
    return ratio(pairs, s.positives * s.negatives)


def _average_precision(s: ScoreSet) -> np.ndarray:
    """Precision averaged over the steps of recall, without interpolation."""
    tp, fp = (np.take(counts, s.ranking.leak_cuts, axis=1) for counts in (s.cuts.tp, s.cuts.fp))
    # Rows of weight 0 may come first: precision is then 0 / 1, and recall makes no step.
    precision = tp / np.maximum(tp + fp, 1)
    first = tp[:, :1] * precision[:, :1]
    steps = np.einsum("bc,bc->b", np.diff(tp, axis=1), precision[:, 1:])
    return ratio(steps + first.sum(axis=1), s.positives)


def resolves_fpr(limit: float, negatives: int) -> bool:
    """True if so many negatives can have a false-positive rate above 0 and up to `limit`."""
    return limit * negatives >= 1.0 - COUNT_SLACK


def resolves_tpr(limit: float, positives: int) -> bool:
    """True if so many positives can have a true-positive rate of `limit` or more, below 1."""
    return (1.0 - limit) * positives >= 1.0 - COUNT_SLACK


def tpr_at_fpr(s: ScoreSet, limit: float) -> np.ndarray:
    """The highest TPR of any threshold with FPR <= limit, not interpolated."""
    allowed = np.floor(limit * s.negatives + COUNT_SLACK).astype(np.int64)
    cut = [
        np.searchsorted(row, most, side="right") - 1
        for row, most in zip(s.cuts.fp, allowed, strict=True)
    ]
    rate = ratio(s.cuts.tp[np.arange(len(cut)), cut], s.positives)
    return np.where(s.negatives > 0, rate, np.nan)


def fpr_at_tpr(s: ScoreSet, limit: float) -> np.ndarray:
    """The lowest FPR of any threshold with TPR >= limit, not interpolated."""
    required = np.ceil(limit * s.positives - COUNT_SLACK).astype(np.int64)
    cut = [
        np.searchsorted(row, least, side="left")
        for row, least in zip(s.cuts.tp, required, strict=True)
    ]
    rate = ratio(s.cuts.fp[np.arange(len(cut)), cut], s.negatives)
    return np.where(s.positives > 0, rate, np.nan)


def _brier(s: ScoreSet) -> np.ndarray:
    """Mean squared difference of score and label."""
    return ratio(s.weights.astype(np.float64) @ np.square(s.ranking.error), s.n)


def _ece(s: ScoreSet) -> np.ndarray:
    """Expected |mean score - leak share| over 15 bins [k/15, (k+1)/15), the last closed."""
    edges = np.arange(ECE_BINS - 1, -1, -1) / ECE_BINS
    rising = s.ranking.scores[::-1]
    # scores are in descending order: a bin is one run of rows, after those of higher bins
    starts = np.unique(len(rising) - np.searchsorted(rising, edges, side="left"))
    starts = np.append(0, starts[(starts > 0) & (starts < len(rising))])
    gaps = np.add.reduceat(s.weights * s.ranking.error, starts, axis=1)
    return ratio(np.abs(gaps).sum(axis=1), s.n)


RATES: dict[str, Metric] = {
    "accuracy": _accuracy,
    "balanced_accuracy": _balanced_accuracy,
    "precision": _precision,
    "recall": _recall,
    "specificity": _specificity,
    "fpr": _fpr,
    "f1": _f1,
    "auroc": _auroc,
    "average_precision": _average_precision,
    **{f"tpr_at_fpr_{limit:g}": partial(tpr_at_fpr, limit=limit) for limit in FPR_POINTS},
    **{f"fpr_at_tpr_{limit:g}": partial(fpr_at_tpr, limit=limit) for limit in TPR_POINTS},
    "brier": _brier,
    "ece": _ece,
}
"""Every metric that is no count, by its key in `metrics.json`."""

_OF_PROBABILITIES = ("brier", "ece")
_OF_BOTH_CLASSES = ("balanced_accuracy", "auroc", *(key for key in RATES if "_at_" in key))
_OF_LEAKS = ("recall", "f1", "average_precision")
_OF_NEGATIVES = ("specificity", "fpr", "smallest_resolvable_fpr")


def binary_metrics(
    scores: Float[np.ndarray, " N"],
    is_leak: Bool[np.ndarray, " N"],
    threshold: float,
    *,
    probabilities: bool = True,
) -> dict[str, Any]:
    """Every metric of `score >= threshold` and of the ranking, leak being the positive class.

    Scores are probabilities in [0, 1]; with `probabilities=False` any finite numbers, such as a
    loudness, without Brier score and calibration error.

    Returns the counts of `COUNTS` (int), the metrics of `RATES` and `smallest_resolvable_fpr` = 1 /
    negatives (float, None where undefined) and `undefined`: {key: reason}. Definitions are
    scikit-learn's, except that undefined metrics are None: precision without predicted leaks;
    recall, F1, average precision and AUROC without leaks; TPR at an FPR below 1 / negatives; FPR at
    a TPR above 1 - 1 / positives. FPR at TPR and TPR at FPR are exact, not interpolated. Raises
    `InputError` on NaN and on scores outside [0, 1].
    """
    ranking = rank(scores, is_leak, probabilities=probabilities)
    rows = score_set(ranking, threshold)
    table = _counts(rows)
    undefined = undefined_reasons(table, probabilities=probabilities)
    for key, metric in RATES.items():
        table[key] = None if key in undefined else float(metric(rows)[0])
    table["smallest_resolvable_fpr"] = 1.0 / table["negatives"] if table["negatives"] else None
    return table | {"undefined": undefined}


def _counts(rows: ScoreSet) -> dict[str, Any]:
    p, n, tp, fp = (int(v[0]) for v in (rows.positives, rows.negatives, rows.tp, rows.fp))
    return dict(zip(COUNTS, (p + n, p, n, tp + fp, tp, fp, p - tp, n - fp), strict=True))


def undefined_reasons(table: dict[str, Any], *, probabilities: bool = True) -> dict[str, str]:
    """Reasons for undefined metrics, from the counts in `table`."""
    positives, negatives = table["positives"], table["negatives"]
    if positives + negatives == 0:
        return dict.fromkeys((*RATES, "smallest_resolvable_fpr"), "there is nothing to score")
    reasons: dict[str, str] = {}
    if table["predicted_positives"] == 0:
        reasons["precision"] = "nothing is called a leak at this threshold"
    if not probabilities:
        reasons |= dict.fromkeys(_OF_PROBABILITIES, "the scores are not probabilities")
    for limit in FPR_POINTS:
        if not resolves_fpr(limit, negatives):
            reason = f"{negatives} negatives resolve no FPR below {1.0 / max(negatives, 1):.3g}"
            reasons[f"tpr_at_fpr_{limit:g}"] = reason
    for limit in TPR_POINTS:
        if not resolves_tpr(limit, positives):
            least = 1.0 - 1.0 / max(positives, 1)
            reason = f"{positives} leaks resolve no TPR between {least:.3g} and 1"
            reasons[f"fpr_at_tpr_{limit:g}"] = reason
    if negatives == 0:
        reason = f"all {positives} rows are leaks"
        reasons |= dict.fromkeys((*_OF_BOTH_CLASSES, *_OF_NEGATIVES), reason)
    if positives == 0:
        reason = f"none of {negatives} rows is a leak"
        reasons |= dict.fromkeys((*_OF_BOTH_CLASSES, *_OF_LEAKS), reason)
    return reasons


def auroc(scores: Float[np.ndarray, " N"], is_leak: Bool[np.ndarray, " N"]) -> float | None:
    """Area under the ROC curve of any finite scores; None where a class is missing."""
    value = float(_auroc(score_set(rank(scores, is_leak, probabilities=False), 0.0))[0])
    return None if np.isnan(value) else value


def precision_at(recall: float, fpr: float, leak_share: float) -> float | None:
    """Precision where `leak_share` of the places leak, by Bayes' rule; None without any alarm."""
    alarms = recall * leak_share + fpr * (1.0 - leak_share)
    return recall * leak_share / alarms if alarms > 0 else None
