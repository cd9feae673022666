"""What a validation check found: the numbers that are logged, and what the diagnoses look at."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from leakdet.training import log_names
from leakdet.training.diagnostics import SampleSummary, tpr_at_least_fpr

Losses = tuple[float, ...]  # total, class, leak


@dataclass(frozen=True)
class Check:
    """One validation check over the whole split and all processes."""

    epoch: int
    step: int
    f1: float
    auroc: float | None
    threshold: float
    confusion: tuple[int, int, int, int]  # tn, fp, fn, tp of recordings
    train_loss: Losses  # since the check before
    val_loss: Losses
    scores: np.ndarray  # float64 [R], of recordings
    is_leak: np.ndarray  # bool [R]
    samples: SampleSummary

    @cached_property
    def tpr_at_least_fpr(self) -> float | None:
        return tpr_at_least_fpr(self.scores, self.is_leak)

    def bins(self) -> dict[str, float]:
        """Name -> share of the samples' leak probabilities in each of ten equal bins."""
        return {
            name: found / self.samples.count
            for name, found in zip(log_names.VAL_PROB_BINS, self.samples.histogram, strict=True)
        }

    def logged(self) -> dict[str, float]:
        """Name -> number of all that is logged besides F1, which is logged as a metric object."""
        values = dict(zip(log_names.VAL_LOSSES, self.val_loss, strict=True))
        values |= dict(zip(log_names.TRAIN_LOSSES, self.train_loss, strict=True))
        values |= {
            name: float(cell)
            for name, cell in zip(log_names.VAL_CONFUSION, self.confusion, strict=True)
        }
        values |= {
            log_names.VAL_THRESHOLD: self.threshold,
            log_names.VAL_PROB_MEAN: self.samples.mean,
        }
        values |= {
            log_names.VAL_PROB_STD: self.samples.std,
            log_names.VAL_LEAK_SHARE: self.samples.predicted_leak_share,
        }
        if self.samples.head_correlation is not None:
            values[log_names.VAL_HEADS] = self.samples.head_correlation
        if self.tpr_at_least_fpr is not None:
            values[log_names.VAL_TPR_LEAST_FPR] = self.tpr_at_least_fpr
        if self.auroc is not None:
            values[log_names.VAL_AUROC] = self.auroc
        return values
