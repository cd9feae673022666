"""Metrics of leak against the rest, exact, with a reason for each that the rows at hand leave undefined.

The same functions score recordings and windows, one sample and thousands of bootstrap replicates: each takes
weighted counts at the cuts of one `Ranking`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from leakdet.detection.ranking import COUNT_SLACK, Cuts, Ranking, rank

FPR_POINTS = (0.1, 0.01, 0.001, 0.0001)
TPR_POINTS = (0.5, 0.85, 0.95)
ECE_BINS = 15

COUNTS = ("n", "positives", "negatives", "predicted_positives", "tp", "fp", "fn", "tn")


@dataclass(frozen=True)
class Sample:
    """Rows under `B` weightings, and what the metrics read off them; build with `sample`."""

    ranking: Ranking
    weights: Int[np.ndarray, "B N"]
    cuts: Cuts
    cut: int

    @property
    def tp(self) -> Int[np.ndarray, " B"]:
        """Leaks called leak at the threshold."""
        return self.cuts.tp[:, self.cut]

    @property
    def fp(self) -> Int[np.ndarray, " B"]:
        """False alarms at the threshold."""
        return self.cuts.fp[:, self.cut]

    @property
    def positives(self) -> Int[np.ndarray, " B"]:
        """Leak rows."""
        return self.cuts.positives

    @property
    def negatives(self) -> Int[np.ndarray, " B"]:
        """Rows without a leak."""
        return self.cuts.negatives


Metric = Callable[[Sample], np.ndarray]


def sample(
    ranking: Ranking, threshold: float, weights: Int[np.ndarray, "B N"] | None = None
) -> Sample:
    """The rows of a ranking cut at `score >= threshold`; weights in sorted order, None: each row once."""
    if weights is None:
        weights = np.ones((1, len(ranking.scores)), np.int64)
    return Sample(ranking, weights, ranking.cuts(weights), ranking.cut(threshold))


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """NaN where the whole is nothing."""
    nothing = np.full(np.shape(part), np.nan)
    return np.asarray(np.divide(part, whole, out=nothing, where=whole > 0))


def _accuracy(s: Sample) -> np.ndarray:
    return _ratio(s.tp + s.negatives - s.fp, s.positives + s.negatives)


def _balanced_accuracy(s: Sample) -> np.ndarray:
    return np.asarray(0.5 * (_recall(s) + _specificity(s)))


def _precision(s: Sample) -> np.ndarray:
    return _ratio(s.tp, s.tp + s.fp)


def _recall(s: Sample) -> np.ndarray:
    return _ratio(s.tp, s.positives)


def _specificity(s: Sample) -> np.ndarray:
    return _ratio(s.negatives - s.fp, s.negatives)


def _fpr(s: Sample) -> np.ndarray:
    return _ratio(s.fp, s.negatives)


def _f1(s: Sample) -> np.ndarray:
    """2 TP / (2 TP + FP + FN): 0 where leaks exist and none is called one, undefined where there are none."""
    return np.where(s.positives > 0, _ratio(2.0 * s.tp, s.positives + s.tp + s.fp), np.nan)


def _auroc(s: Sample) -> np.ndarray:
    """Mann-Whitney: the share of pairs in which the leak scores higher, ties counting half."""
    higher = s.cuts.tp[:, :-1] + s.cuts.tp[:, 1:]
    return _ratio(
        0.5 * np.einsum("bc,bc->b", np.diff(s.cuts.fp, axis=1), higher), s.positives * s.negatives
    )


def _average_precision(s: Sample) -> np.ndarray:
    """Precision averaged over the steps of recall, without interpolation."""
    found, false = (
        np.take(counts, s.ranking.leak_cuts, axis=1) for counts in (s.cuts.tp, s.cuts.fp)
    )
    # Nothing is called before the first row of weight: 0 / 1 there, and recall makes no step.
    precision = found / np.maximum(found + false, 1)
    first = found[:, :1] * precision[:, :1]
    steps = np.einsum("bc,bc->b", np.diff(found, axis=1), precision[:, 1:])
    return _ratio(steps + first.sum(axis=1), s.positives)


def _tpr_at_fpr(s: Sample, limit: float) -> np.ndarray:
    """The highest TPR of any threshold with FPR <= limit, not interpolated."""
    allowed = np.floor(limit * s.negatives + COUNT_SLACK).astype(np.int64)
    cut = [
        np.searchsorted(row, most, side="right") - 1
        for row, most in zip(s.cuts.fp, allowed, strict=True)
    ]
    rate = _ratio(s.cuts.tp[np.arange(len(cut)), cut], s.positives)
    return np.where(s.negatives > 0, rate, np.nan)


def _fpr_at_tpr(s: Sample, limit: float) -> np.ndarray:
    """The lowest FPR of any threshold with TPR >= limit, not interpolated."""
    wanted = np.ceil(limit * s.positives - COUNT_SLACK).astype(np.int64)
    cut = [
        np.searchsorted(row, least, side="left")
        for row, least in zip(s.cuts.tp, wanted, strict=True)
    ]
    rate = _ratio(s.cuts.fp[np.arange(len(cut)), cut], s.negatives)
    return np.where(s.positives > 0, rate, np.nan)


def _brier(s: Sample) -> np.ndarray:
    """Mean squared difference of score and label."""
    return _ratio(
        s.weights.astype(np.float64) @ np.square(s.ranking.error), s.positives + s.negatives
    )


def _ece(s: Sample) -> np.ndarray:
    """Expected |mean score - leak share| over 15 bins [k / 15, (k + 1) / 15) of the score, 1 in the last."""
    edges = np.arange(ECE_BINS, 0, -1) / ECE_BINS
    # In falling order a bin is one stretch of rows, and starts after all the rows of its upper edge and above.
    starts = np.unique(
        len(s.ranking.scores) - np.searchsorted(s.ranking.scores[::-1], edges[1:], side="left")
    )
    starts = np.append(0, starts[(starts > 0) & (starts < len(s.ranking.scores))])
    gaps = np.add.reduceat(s.weights * s.ranking.error, starts, axis=1)
    return _ratio(np.abs(gaps).sum(axis=1), s.positives + s.negatives)


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
    **{f"tpr_at_fpr_{limit:g}": partial(_tpr_at_fpr, limit=limit) for limit in FPR_POINTS},
    **{f"fpr_at_tpr_{limit:g}": partial(_fpr_at_tpr, limit=limit) for limit in TPR_POINTS},
    "brier": _brier,
    "ece": _ece,
}
"""Every metric that is no count, by its key in `metrics.json`."""

_OF_PROBABILITIES = ("brier", "ece")
_OF_BOTH = ("balanced_accuracy", "auroc")
_OF_LEAKS = ("recall", "f1", "average_precision")
_OF_REST = ("specificity", "fpr")


def binary_metrics(
    scores: Float[np.ndarray, " N"],
    is_leak: Bool[np.ndarray, " N"],
    threshold: float,
    *,
    counts: Int[np.ndarray, " N"] | None = None,
    probabilities: bool = True,
) -> dict[str, Any]:
    """Every metric of `score >= threshold` and of the ranking, leak being the positive class.

    `counts` says how often each row counts (None: once). Scores are probabilities in [0, 1]; with
    `probabilities=False` any finite numbers, such as a loudness, without Brier score and calibration error.

    Returns the counts of `COUNTS` (int), the metrics of `RATES` and `smallest_resolvable_fpr` = 1 / negatives
    (float, None where undefined) and `undefined`: {key: reason}. Definitions are scikit-learn's, but that
    what is undefined there is None here: precision when nothing is called a leak, recall, F1, average
    precision and AUROC without leaks, TPR at an FPR below 1 / negatives. FPR at TPR and TPR at FPR are exact
    and not interpolated. Raises `InputError` on NaN and on scores outside [0, 1].
    """
    ranking = rank(scores, is_leak, probabilities=probabilities)
    weights = None if counts is None else counts[ranking.order].astype(np.int64)[None]
    rows = sample(ranking, threshold, weights)
    table: dict[str, Any] = _counts(rows)
    undefined = undefined_reasons(table, probabilities=probabilities)
    for key, metric in RATES.items():
        table[key] = None if key in undefined else float(metric(rows)[0])
    table["smallest_resolvable_fpr"] = 1.0 / table["negatives"] if table["negatives"] else None
    return table | {"undefined": undefined}


def _counts(rows: Sample) -> dict[str, Any]:
    tp, fp = int(rows.tp[0]), int(rows.fp[0])
    positives, negatives = int(rows.positives[0]), int(rows.negatives[0])
    values = (
        positives + negatives,
        positives,
        negatives,
        tp + fp,
        tp,
        fp,
        positives - tp,
        negatives - fp,
    )
    return dict(zip(COUNTS, values, strict=True))


def undefined_reasons(table: dict[str, Any], *, probabilities: bool = True) -> dict[str, str]:
    """Why metrics have no value, by key, from the counts `positives`, `negatives`, `predicted_positives`."""
    positives, negatives = table["positives"], table["negatives"]
    if positives + negatives == 0:
        return dict.fromkeys((*RATES, "smallest_resolvable_fpr"), "there is nothing to score")
    curve = tuple(key for key in RATES if key.startswith(("tpr_at_fpr", "fpr_at_tpr")))
    reasons: dict[str, str] = {}
    if table["predicted_positives"] == 0:
        reasons["precision"] = "nothing is called a leak at this threshold"
    if not probabilities:
        reasons |= dict.fromkeys(_OF_PROBABILITIES, "the scores are no probabilities")
    for limit in FPR_POINTS:
        if limit * negatives < 1.0 - COUNT_SLACK:
            reason = f"{negatives} negatives resolve no FPR below {1.0 / max(negatives, 1):.3g}"
            reasons[f"tpr_at_fpr_{limit:g}"] = reason
    if negatives == 0:
        reasons |= dict.fromkeys((*_OF_BOTH, *_OF_REST, *curve), f"all {positives} rows are leaks")
        reasons["smallest_resolvable_fpr"] = f"all {positives} rows are leaks"
    if positives == 0:
        reasons |= dict.fromkeys(
            (*_OF_BOTH, *_OF_LEAKS, *curve), f"none of {negatives} rows is a leak"
        )
    return reasons


def metric_values(rows: Sample, keys: Iterable[str]) -> dict[str, Float[np.ndarray, " B"]]:
    """Metrics of `RATES` under every weighting, NaN where a weighting leaves one undefined."""
    return {key: RATES[key](rows) for key in keys}


def auroc(scores: Float[np.ndarray, " N"], is_leak: Bool[np.ndarray, " N"]) -> float | None:
    """Area under the ROC curve of any finite scores, ties counting half; None if one class is missing."""
    value = float(_auroc(sample(rank(scores, is_leak, probabilities=False), 0.0))[0])
    return None if np.isnan(value) else value
