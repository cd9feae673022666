"""The result of a validation check: what is logged, and what the diagnoses read."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float

from leakdet.training import log_names
from leakdet.training.model_selection import selection_rank
from leakdet.training.sample_summary import SampleSummary

Losses = tuple[float, ...]  # total, class, leak
FPR_BUDGETS = (0.0001, 0.001, 0.01, 0.1)


@dataclass(frozen=True)
class ValidationResult:
    """One validation check over the whole split and all processes."""

    epoch: int
    step: int
    f1: float
    auroc: float | None
    threshold: float
    confusion: tuple[int, int, int, int]  # tn, fp, fn, tp of recordings
    train_loss: Losses  # since the check before
    val_loss: Losses
    leaks_drawn: float  # share of leaks among the samples that the epoch draws
    scores: np.ndarray  # float64 [R], of recordings
    is_leak: np.ndarray  # bool [R]
    samples: SampleSummary

    @property
    def rank(self) -> float:
        """The number by which checks are compared; see `selection_rank`."""
        return selection_rank(self.f1, self.val_loss[0])

    @cached_property
    def tpr_at_least_fpr(self) -> float | None:
        return tpr_at_least_fpr(self.scores, self.is_leak)

    def logged(self) -> dict[str, float]:
        """Name -> number of all that is logged besides F1, which is logged as a metric object."""
        samples = self.samples
        values = dict(zip(log_names.VAL_LOSSES, self.val_loss, strict=True))
        values |= dict(zip(log_names.TRAIN_LOSSES, self.train_loss, strict=True))
        values |= dict(zip(log_names.VAL_CONFUSION, map(float, self.confusion), strict=True))
        values |= {
            log_names.VAL_THRESHOLD: self.threshold,
            log_names.VAL_PROB_MEAN: samples.mean,
            log_names.VAL_PROB_STD: samples.std,
            log_names.VAL_LEAK_SHARE: samples.predicted_leak_share,
        }
        optional = {
            log_names.VAL_HEADS: samples.head_correlation,
            log_names.VAL_TPR_LEAST_FPR: self.tpr_at_least_fpr,
            log_names.VAL_AUROC: self.auroc,
        }
        values |= {name: value for name, value in optional.items() if value is not None}
        return values | {log_names.TRAIN_DRAWN: self.leaks_drawn, log_names.VAL_RANK: self.rank}

    def row(self) -> dict[str, float]:
        """The check's row of the history."""
        place = {"epoch": float(self.epoch), "step": float(self.step), log_names.VAL_F1: self.f1}
        return {**place, **self.logged(), **self._bins()}

    def _bins(self) -> dict[str, float]:
        """Name -> share of the samples' leak probabilities in each of ten equal bins."""
        counts = zip(log_names.VAL_PROB_BINS, self.samples.histogram, strict=True)
        return {name: count / self.samples.count for name, count in counts}


def tpr_at_least_fpr(
    scores: Float[np.ndarray, " R"], is_leak: Bool[np.ndarray, " R"]
) -> float | None:
    """TPR at the smallest FPR of FPR_BUDGETS that so many negatives can measure, if any."""
    negatives = np.sort(scores[~is_leak])[::-1]
    budgets = [budget for budget in FPR_BUDGETS if budget * len(negatives) >= 1]
    if not budgets or not is_leak.any():
        return None
    allowed = int(budgets[0] * len(negatives))
    return float((scores[is_leak] > negatives[allowed]).mean())
