"""The curves behind the figures, in few points for any number of recordings."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from leakdet.detection.ranking import rank
from leakdet.evaluation.intervals import wilson

MAX_POINTS = 300
SCORE_BINS = 20
RELIABILITY_BINS = 10


def curves(
    scores: Float[np.ndarray, " R"],
    probability: Float[np.ndarray, " R"],
    is_leak: Bool[np.ndarray, " R"],
) -> dict[str, Any]:
    """The curves of one split, as in metrics.json; ROC and precision-recall need both classes.

    - `roc`: [[fpr, tpr], …] from [0, 0] to [1, 1]; `precision_recall`: [[recall, precision], …] by
      rising recall. Curves of more than 300 corners are thinned.
    - `histogram`: `edges` of 20 equal bins of the score, counts `leak` and `no_leak`.
    - `reliability`: per non-empty tenth of `probability`: `n`, `mean_prob`, `leak_share` and its
      `interval`.
    """
    roc = precision_recall = None
    if is_leak.any() and not is_leak.all():
        cuts = rank(scores, is_leak).cuts()
        tp, fp = cuts.tp[0], cuts.fp[0]
        roc = _thinned_list(fp / fp[-1], tp / tp[-1])
        precision_recall = _thinned_list(tp[1:] / tp[-1], tp[1:] / (tp[1:] + fp[1:]))
    return {
        "roc": roc,
        "precision_recall": precision_recall,
        "histogram": _histogram(scores, is_leak),
        "reliability": _reliability(probability, is_leak),
    }


def thinned(
    points: Float[np.ndarray, "N 2"], max_points: int = MAX_POINTS
) -> Float[np.ndarray, "K 2"]:
    """Drop points inside straight runs, then all but those at even steps along the line."""
    if len(points) > 2:
        before, after = points[1:-1] - points[:-2], points[2:] - points[1:-1]
        bends = np.abs(before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]) > 1e-15
        points = points[np.concatenate([[True], bends, [True]])]
    if len(points) <= max_points:
        return points
    length = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(points, axis=0)).sum(axis=1))])
    kept = np.searchsorted(length, np.linspace(0.0, length[-1], max_points))
    return np.asarray(points[np.unique(np.append(kept, [0, len(points) - 1]))])


def _thinned_list(x: Float[np.ndarray, " N"], y: Float[np.ndarray, " N"]) -> list[list[float]]:
    points: list[list[float]] = thinned(np.stack([x, y], axis=1)).round(6).tolist()
    return points


def _histogram(
    scores: Float[np.ndarray, " R"], is_leak: Bool[np.ndarray, " R"]
) -> dict[str, list[float] | list[int]]:
    edges = np.linspace(0.0, 1.0, SCORE_BINS + 1)
    return {
        "edges": edges.round(6).tolist(),
        "leak": np.histogram(scores[is_leak], edges)[0].tolist(),
        "no_leak": np.histogram(scores[~is_leak], edges)[0].tolist(),
    }


def _reliability(
    probability: Float[np.ndarray, " R"], is_leak: Bool[np.ndarray, " R"]
) -> list[dict[str, Any]]:
    bins = np.minimum((probability * RELIABILITY_BINS).astype(np.int64), RELIABILITY_BINS - 1)
    rows = []
    for index in np.unique(bins):
        inside = bins == index
        n, leaks = int(inside.sum()), int(is_leak[inside].sum())
        rows.append(
            {
                "low": index / RELIABILITY_BINS,
                "high": (index + 1) / RELIABILITY_BINS,
                "n": n,
                "mean_prob": float(probability[inside].mean()),
                "leak_share": leaks / n,
                "interval": wilson(leaks, n),
            }
        )
    return rows
