"""The curves behind the figures, as few points as an eye can tell apart, from any number of recordings."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from leakdet.detection.ranking import rank
from leakdet.evaluation.groups import wilson

MAX_POINTS = 300
SCORE_BINS = 20
RELIABILITY_BINS = 10


def curves(
    scores: Float[np.ndarray, " R"],
    probability: Float[np.ndarray, " R"],
    is_leak: Bool[np.ndarray, " R"],
) -> dict[str, Any]:
    """`roc` and `precision_recall` (None where a class is missing), `histogram` of the scores and `reliability`.

    - `roc`: [[fpr, tpr], …] from [0, 0] to [1, 1]; `precision_recall`: [[recall, precision], …] by rising recall. Curves
      of more than 300 corners keep those where they bend most.
    - `histogram`: `edges` of 20 equal bins of the score, counts `leak` and `no_leak`.
    - `reliability`: per tenth of `probability` that holds recordings: `n`, `mean_prob`, `leak_share` and its `interval`.
    """
    made: dict[str, Any] = {"roc": None, "precision_recall": None}
    if is_leak.any() and not is_leak.all():
        cuts = rank(scores, is_leak).cuts()
        tp, fp = cuts.tp[0], cuts.fp[0]
        roc = np.stack([fp / fp[-1], tp / tp[-1]], axis=1)
        precision_recall = np.stack([tp[1:] / tp[-1], tp[1:] / (tp[1:] + fp[1:])], axis=1)
        made["roc"] = _plain(thinned(roc))
        made["precision_recall"] = _plain(thinned(precision_recall))
    return made | {
        "histogram": _histogram(scores, is_leak),
        "reliability": _reliability(probability, is_leak),
    }


def thinned(points: Float[np.ndarray, "N 2"], most: int = MAX_POINTS) -> Float[np.ndarray, "K 2"]:
    """Corners of a line: those within a straight run go, then all that an even walk along the line does not need."""
    if len(points) > 2:
        before, after = points[1:-1] - points[:-2], points[2:] - points[1:-1]
        bends = np.abs(before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]) > 1e-15
        points = points[np.concatenate([[True], bends, [True]])]
    if len(points) <= most:
        return points
    walked = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(points, axis=0)).sum(axis=1))])
    kept = np.searchsorted(walked, np.linspace(0.0, walked[-1], most))
    return np.asarray(points[np.unique(np.append(kept, [0, len(points) - 1]))])


def _plain(points: np.ndarray) -> list[list[float]]:
    return [[round(float(x), 6), round(float(y), 6)] for x, y in points]


def _histogram(scores: np.ndarray, is_leak: np.ndarray) -> dict[str, list[float] | list[int]]:
    edges = np.linspace(0.0, 1.0, SCORE_BINS + 1)
    of_leaks, of_rest = (np.histogram(scores[which], edges)[0] for which in (is_leak, ~is_leak))
    return {
        "edges": edges.round(6).tolist(),
        "leak": [int(n) for n in of_leaks],
        "no_leak": [int(n) for n in of_rest],
    }


def _reliability(probability: np.ndarray, is_leak: np.ndarray) -> list[dict[str, Any]]:
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
