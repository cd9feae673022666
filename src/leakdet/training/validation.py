"""A validation check: its samples gathered over ranks, its metrics, rates, rank and result.

Few recordings may not resolve a false-positive rate: then it is that of all windows, each with the
label of its recording, under a name that says so.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import lightning.pytorch as pl
import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn
from torchmetrics.classification import (
    BinaryConfusionMatrix,
    BinaryF1Score,
    MulticlassConfusionMatrix,
    MulticlassF1Score,
)

from leakdet.config import DecisionConfig, TrainConfig
from leakdet.core.errors import LeakdetError
from leakdet.detection.decision import pool, pool_classes
from leakdet.detection.detector import window_mean
from leakdet.detection.losses import LossParts, any_of
from leakdet.detection.networks import Output, leak_probability, leak_share
from leakdet.detection.thresholds import rank
from leakdet.evaluation.metrics import (
    FPR_POINTS,
    TPR_POINTS,
    ScoreSet,
    fpr_at_tpr,
    resolves_fpr,
    score_set,
    tpr_at_fpr,
)
from leakdet.loading.samples import Batch
from leakdet.training import log_names

LOST = (
    "connection closed by peer",
    "connection reset by peer",
    "broken pipe",
    "remote process exited",
)


def sum_over_ranks(trainer: "pl.Trainer", value: Tensor) -> Tensor:
    """The sum of every rank's `value`, on the CPU."""
    if trainer.world_size == 1:
        return value.cpu()
    on_device = value.to(trainer.strategy.root_device)
    reduced: Tensor = trainer.strategy.reduce(on_device, reduce_op="sum")
    return reduced.cpu()


@contextmanager
def lost_peer_explained(trainer: "pl.Trainer", checkpoint: Path) -> Iterator[None]:
    """Turn a lost connection to another rank into `LeakdetError`; other errors pass."""
    try:
        yield
    except RuntimeError as error:
        if trainer.world_size == 1 or not any(text in str(error).lower() for text in LOST):
            raise
        resume = f" To continue: the same command with resume={checkpoint.parent.parent}"
        raise LeakdetError(
            f"process {trainer.global_rank} of {trainer.world_size} lost another one, which died "
            "(killed, or out of memory?); its own message, if it had one, stands above."
            + (resume if checkpoint.exists() else "")
        ) from error


class CheckMetrics(nn.Module):
    """Metrics over all ranks; of leak and no leak, or macro F1 of so many classes."""

    def __init__(self, classes: int | None = None) -> None:
        super().__init__()
        self.f1 = BinaryF1Score() if classes is None else MulticlassF1Score(classes)
        self.confusion = (
            BinaryConfusionMatrix() if classes is None else MulticlassConfusionMatrix(classes)
        )

    def of_check(
        self, predicted: Shaped[np.ndarray, " r"], true: Shaped[np.ndarray, " r"]
    ) -> tuple[float, Int[np.ndarray, "C C"]]:
        """F1 and the counts of true by predicted class, from this rank's recordings.

        The object `f1` holds the same number, to be logged.
        """
        device = self.confusion.device
        rows = [torch.from_numpy(ids).long().to(device) for ids in (predicted, true)]
        self.f1(*rows)
        self.confusion(*rows)
        counts = self.confusion.compute().cpu().numpy()
        self.confusion.reset()
        return float(self.f1.compute()), counts


def class_numbers(
    names: Sequence[str], f1: float, counts: Int[np.ndarray, "C C"]
) -> dict[str, float]:
    """Name -> number of a check's row in the history: macro F1 and each cell of the table."""
    cells = {
        f"{log_names.VAL_CLASS_CONFUSION}{true}/{predicted}": float(count)
        for true, row in zip(names, counts.tolist(), strict=True)
        for predicted, count in zip(names, row, strict=True)
    }
    return {log_names.VAL_CLASS_F1: f1, **cells}


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


BINS = 10


def sample_sums(output: Output, leaks: Sequence[int], blend: float) -> Float[Tensor, " K"]:
    """Sums over a batch that `SampleSummary.of` reads; those of batches and processes add up."""
    by_class = output.class_logits.float().softmax(-1)
    classes, aux = leak_share(by_class, leaks), output.leak_logit.float().sigmoid()
    prob = blend * classes + (1.0 - blend) * aux if blend != 1.0 else classes
    predicted = any_of(by_class.argmax(-1), leaks).float()
    moments = [torch.ones_like(prob), prob, prob.square(), predicted, classes, aux]
    moments += [classes.square(), aux.square(), classes * aux]
    bins = (prob * BINS).long().clamp(0, BINS - 1)
    histogram = torch.nn.functional.one_hot(bins, BINS).sum(0)
    return torch.cat([torch.stack(moments).double().sum(1), histogram.double()])


@dataclass(frozen=True)
class SampleSummary:
    """Moments of the samples' leak probabilities."""

    count: int
    mean: float
    std: float
    predicted_leak_share: float  # by the class head alone
    # of the two heads; None with one head, or where one of them is constant
    head_correlation: float | None
    histogram: tuple[int, ...]  # of BINS equal bins from 0 to 1

    @classmethod
    def of(cls, sums: Float[Tensor, " K"], blend: float) -> "SampleSummary":
        """The summary from the totals of `sample_sums`."""
        count, prob, squares, predicted, a, b, aa, bb, ab, *histogram = sums.double().tolist()
        mean = prob / count
        var_a, var_b = aa / count - (a / count) ** 2, bb / count - (b / count) ** 2
        spread = math.sqrt(max(0.0, var_a) * max(0.0, var_b))
        covariance = ab / count - a * b / count**2
        return cls(
            count=int(count),
            mean=mean,
            std=math.sqrt(max(0.0, squares / count - mean**2)),
            predicted_leak_share=predicted / count,
            head_correlation=covariance / spread if blend != 1.0 and spread > 1e-9 else None,
            histogram=tuple(map(int, histogram)),
        )


def right_samples(output: Output, targets: Sequence[Batch]) -> Tensor | float:
    """Number of samples the class head gets right; NaN of blended ones, which have two targets."""
    if len(targets) > 1:
        return float("nan")
    return (output.class_logits.detach().argmax(-1) == targets[0].class_id).sum()


class LossSums:
    """Sums of the loss parts over samples, the number of samples, and how many were classed right.

    The last one is NaN where it is not counted.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._sums = torch.zeros(5, dtype=torch.float64)
        self._pending: list[Tensor] = []

    def update(
        self,
        parts: LossParts,
        factor: int | float,
        samples: int,
        right: Tensor | float = float("nan"),
    ) -> None:
        """Add a batch of `samples`, whose sums are `parts` times `factor`; `right` are correct."""
        sums = torch.stack([part.detach() * factor for part in parts])
        counts = (sums.new_full((), float(samples)), sums.new_zeros(()) + right)
        self._pending.append(torch.cat([sums, torch.stack(counts)]))

    def compute(self) -> Float[Tensor, "5"]:
        """Sums of total, class and leak loss, number of samples and of correct ones.

        float64 on the CPU.
        """
        if self._pending:
            self._sums = self._sums + torch.stack(self._pending).double().sum(0).cpu()
            self._pending = []
        return self._sums

    def load(self, sums: list[float]) -> None:
        """Continue from sums that `compute` returned earlier."""
        self._sums, self._pending = torch.tensor(sums, dtype=torch.float64), []


class ValidationSums(NamedTuple):
    """One rank's part of a validation check; the tensors add up over ranks."""

    samples: Float[Tensor, " K"]  # of `sample_sums`
    scores: Float[Tensor, " R"]  # of this rank's recordings, 0 for all others
    window_prob: Float[Tensor, " W"]  # likewise
    rows: Int[np.ndarray, " r"]  # this rank's recordings
    class_prob: Float[np.ndarray, "r C"]  # of these, [r, 0] where classes are not told


class ValidationAccumulator:
    """Losses, predictions and their moments over the batches of a validation check.

    `losses` is checked before `compute`: where a loss is NaN, there are no scores.
    """

    def __init__(
        self,
        windows_per_recording: Int[np.ndarray, " R"],
        decision: DecisionConfig,
        leaks: Sequence[int],
        blend: float,
        tells_classes: bool = False,
    ) -> None:
        self.windows_per_recording, self.decision = windows_per_recording, decision
        self.leaks, self.blend, self.tells_classes = leaks, blend, tells_classes
        self.reset()

    def reset(self) -> None:
        self.losses = LossSums()
        self._samples: list[Tensor] = []
        self._probs: list[Tensor] = []
        self._recordings: list[Tensor] = []
        self._classes: list[Tensor] = []

    def update(self, output: Output, parts: LossParts, recording: Int[Tensor, " B"]) -> None:
        """Add a batch: outputs of whole recordings in order, their mean losses and their rows."""
        self.losses.update(parts, len(recording), len(recording))
        self._samples.append(sample_sums(output, self.leaks, self.blend))
        self._probs.append(leak_probability(output, self.leaks, self.blend))
        self._recordings.append(recording)
        logits = output.class_logits.float()
        self._classes.append(logits.softmax(-1) if self.tells_classes else logits[:, :0])

    def compute(self) -> ValidationSums:
        """Pool the predictions into a score per recording, and sum up their moments."""
        rows = np.unique(torch.cat(self._recordings).cpu().numpy())
        windows = self.windows_per_recording[rows]
        window_prob = window_mean(torch.cat(self._probs), int(windows.sum())).cpu().numpy()
        scores = torch.zeros(len(self.windows_per_recording), dtype=torch.float64)
        offsets = np.concatenate([[0], np.cumsum(windows)])
        pooled = pool(window_prob, offsets, self.decision.pooling, self.decision.vote_fraction)
        scores[torch.from_numpy(rows)] = torch.from_numpy(pooled)
        every_window = torch.zeros(int(self.windows_per_recording.sum()), dtype=torch.float64)
        of_rows = np.repeat(np.isin(np.arange(len(scores)), rows), self.windows_per_recording)
        every_window[torch.from_numpy(of_rows)] = torch.from_numpy(window_prob).double()
        of_windows = window_mean(torch.cat(self._classes), int(windows.sum())).cpu().numpy()
        leaks = self.leaks if self.tells_classes else ()
        classes = pool_classes(of_windows, offsets, leaks, pooled)
        return ValidationSums(
            torch.stack(self._samples).sum(0), scores, every_window, rows, classes
        )


def require_finite(loss: float, epoch: int, lr: float) -> None:
    """Raise `LeakdetError` where the validation loss is NaN or infinite."""
    if not math.isfinite(loss):
        raise LeakdetError(
            f"Training stopped in epoch {epoch + 1}: the validation loss is {loss}. Lower "
            f"optimizer.lr (now {lr:g}), or set trainer.gradient_clip_val; with "
            "trainer.precision=16-mixed, try bf16-mixed."
        )


@dataclass(frozen=True)
class Selection:
    """The metric that `select` names, at the rate that it is measured at, if any."""

    name: str
    limit: float | None = None

    @classmethod
    def of(cls, config: TrainConfig) -> "Selection":
        limits = {
            "tpr_at_fpr": config.decision.max_fpr,
            "fpr_at_tpr": config.decision.min_tpr,
        }
        return cls(config.select, limits.get(config.select))

    @property
    def words(self) -> str:
        """The metric in a sentence."""
        match self.name:
            case "tpr_at_fpr":
                return f"TPR at FPR {self.limit:g}"
            case "fpr_at_tpr":
                return f"FPR at TPR {self.limit:g}"
        return {"f1": "F1", "auroc": "AUROC", "loss": "loss"}[self.name]

    def rank(self, value: float | None, loss: float) -> float:
        """Rank of a check: the higher, the better. An undefined value is the worst."""
        if self.name == "loss":
            return -loss
        if value is None:
            return -1.0
        return selection_rank(1.0 - value if self.name == "fpr_at_tpr" else value, loss)


def selection_rank(score: float, loss: float) -> float:
    """A score plus at most 0.001 for a low loss, which breaks ties: the higher, the better.

    On few validation recordings F1 is 1 after an epoch or two, long before the network has learnt
    enough; without the loss the first of equals would be kept and training would stop there.
    """
    return score + 1e-3 / (1.0 + loss)


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
