"""F1 and confusion matrix of recordings at a validation check, of leaks or of all classes."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int, Shaped
from torch import nn
from torchmetrics.classification import (
    BinaryConfusionMatrix,
    BinaryF1Score,
    MulticlassConfusionMatrix,
    MulticlassF1Score,
)

from leakdet.training import log_names


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
