"""The result of a validation check: what is logged, and what the diagnoses read."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from leakdet.training import log_names
from leakdet.training.model_selection import Selection, selection_rank
from leakdet.training.sample_summary import SampleSummary
from leakdet.training.validation_rates import ValidationRates

Losses = tuple[float, ...]  # total, class, leak
F1 = Selection("f1")


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
    window_prob: np.ndarray  # float64 [W], of all windows
    windows_per_recording: np.ndarray  # int [R]
    train_accuracy: float = math.nan  # of the class head, on augmented samples; NaN: unknown
    selection: Selection = F1

    @property
    def rank(self) -> float:
        """The number by which checks are compared under `select=f1`; see `selection_rank`."""
        return selection_rank(self.f1, self.val_loss[0])

    @property
    def selected(self) -> float | None:
        """The value of the metric that `select` names."""
        match self.selection.name:
            case "f1":
                return self.f1
            case "auroc":
                return self.auroc
            case "loss":
                return self.val_loss[0]
        limit = self.selection.limit or 0.0
        if self.selection.name == "tpr_at_fpr":
            return self.rates.tpr_at_fpr(limit)
        return self.rates.fpr_at_tpr(limit)

    @property
    def selected_rank(self) -> float:
        """Rank of the check under `select`: the higher, the better."""
        return self.selection.rank(self.selected, self.val_loss[0])

    @cached_property
    def rates(self) -> ValidationRates:
        windows_are_leak = np.repeat(self.is_leak, self.windows_per_recording)
        return ValidationRates(self.scores, self.is_leak, self.window_prob, windows_are_leak)

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
            log_names.VAL_PROB_MEDIAN: float(np.median(self.window_prob)),
        }
        ends = (float(self.window_prob.min()), float(self.window_prob.max()))
        values |= dict(zip(log_names.VAL_PROB_RANGE, ends, strict=True))
        accuracy = self.train_accuracy
        optional = {
            log_names.VAL_HEADS: samples.head_correlation,
            log_names.VAL_TPR_LEAST_FPR: self.rates.tpr_at_least_fpr,
            log_names.VAL_AUROC: self.auroc,
            log_names.TRAIN_ACCURACY: None if math.isnan(accuracy) else accuracy,
        }
        values |= {name: value for name, value in optional.items() if value is not None}
        values |= self.rates.logged()
        if self.selection.name != "f1":
            values[log_names.VAL_SELECTION] = self.selected_rank
        return values | {log_names.TRAIN_DRAWN: self.leaks_drawn, log_names.VAL_RANK: self.rank}

    def row(self) -> dict[str, float]:
        """The check's row of the history."""
        place = {"epoch": float(self.epoch), "step": float(self.step), log_names.VAL_F1: self.f1}
        return {**place, **self.logged(), **self._bins()}

    def _bins(self) -> dict[str, float]:
        """Name -> share of the samples' leak probabilities in each of ten equal bins."""
        counts = zip(log_names.VAL_PROB_BINS, self.samples.histogram, strict=True)
        return {name: count / self.samples.count for name, count in counts}
