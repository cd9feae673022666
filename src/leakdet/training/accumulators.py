"""Sums and predictions of many batches, kept on the device until a validation check."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from leakdet.config import DecisionConfig
from leakdet.detection.detector import window_mean
from leakdet.detection.leak_classes import leak_probability
from leakdet.detection.losses import LossParts
from leakdet.detection.networks import Output
from leakdet.detection.pooling import pool, pool_classes
from leakdet.loading.samples import Batch
from leakdet.training.sample_summary import sample_sums


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
        """Continue from sums that `compute` returned earlier, of an older version four."""
        five = [*sums, float("nan")][:5]
        self._sums, self._pending = torch.tensor(five, dtype=torch.float64), []


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
