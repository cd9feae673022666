"""True- and false-positive rates of a validation check at the points that metrics.json has too.

So few recordings may not resolve a false-positive rate: then it is that of all windows, each with
the label of its recording, under a name that says so.
"""

from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float

from leakdet.detection.ranking import rank
from leakdet.evaluation.metrics import (
    FPR_POINTS,
    TPR_POINTS,
    ScoreSet,
    fpr_at_tpr,
    resolves_fpr,
    score_set,
    tpr_at_fpr,
)
from leakdet.training import log_names


class ValidationRates:
    """Rates of recordings and, where these are too few, of their windows."""

    def __init__(
        self,
        scores: Float[np.ndarray, " R"],
        is_leak: Bool[np.ndarray, " R"],
        window_prob: Float[np.ndarray, " W"],
        window_is_leak: Bool[np.ndarray, " W"],
    ) -> None:
        self._recordings, self._windows = (scores, is_leak), (window_prob, window_is_leak)

    @cached_property
    def recordings(self) -> ScoreSet:
        return _ranked(*self._recordings)

    @cached_property
    def windows(self) -> ScoreSet:
        return _ranked(*self._windows)

    def tpr_at_fpr(self, limit: float) -> float | None:
        """TPR at FPR <= limit, of windows where so few recordings cannot resolve it.

        Where windows cannot either, it is their TPR without any false alarm; None without a class.
        """
        negatives = int((~self._recordings[1]).sum())
        few = not resolves_fpr(limit, negatives)
        return _defined(tpr_at_fpr(self.windows if few else self.recordings, limit))

    def fpr_at_tpr(self, limit: float) -> float | None:
        """FPR at TPR >= limit of recordings; None without a class."""
        return _defined(fpr_at_tpr(self.recordings, limit))

    @cached_property
    def tpr_at_least_fpr(self) -> float | None:
        """TPR of recordings at the smallest of FPR_POINTS that so many can resolve, if any."""
        negatives = int((~self._recordings[1]).sum())
        limits = [limit for limit in FPR_POINTS if resolves_fpr(limit, negatives)]
        return _defined(tpr_at_fpr(self.recordings, min(limits))) if limits else None

    def logged(self) -> dict[str, float]:
        """Log name -> every rate that recordings or windows resolve."""
        negatives, of_windows = (int((~truth).sum()) for truth in self._truths())
        values: dict[str, float | None] = {}
        for limit, name, pooled in zip(
            FPR_POINTS, log_names.VAL_TPR_AT_FPR, log_names.VAL_WINDOW_TPR_AT_FPR, strict=True
        ):
            if resolves_fpr(limit, negatives):
                values[name] = self.tpr_at_fpr(limit)
            elif resolves_fpr(limit, of_windows):
                values[pooled] = self.tpr_at_fpr(limit)
        values |= {
            name: self.fpr_at_tpr(limit)
            for limit, name in zip(TPR_POINTS, log_names.VAL_FPR_AT_TPR, strict=True)
        }
        return {name: value for name, value in values.items() if value is not None}

    def _truths(self) -> tuple[np.ndarray, np.ndarray]:
        return self._recordings[1], self._windows[1]


def _ranked(scores: np.ndarray, is_leak: np.ndarray) -> ScoreSet:
    return score_set(rank(scores, is_leak, probabilities=False), 0.0)


def _defined(rate: np.ndarray) -> float | None:
    value = float(rate[0])
    return None if np.isnan(value) else value
