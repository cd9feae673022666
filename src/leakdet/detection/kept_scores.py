"""Scores of validation and test recordings, which a model file keeps.

By those of val it can decide anew; those of test say what its scores are worth.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float

if TYPE_CHECKING:
    from torch import Tensor

VAL, TEST = "val", "test"
# tensors of the model file
KEPT = tuple(f"{split}.{what}" for split in (VAL, TEST) for what in ("scores", "is_leak"))
MOST = 100_000  # recordings that a model file keeps, 0.9 MB


@dataclass(frozen=True)
class ValidationScores:
    """Scores of recordings of a split under the model's own pooling, and which are leaks."""

    scores: Float[np.ndarray, " R"]
    is_leak: Bool[np.ndarray, " R"]

    @classmethod
    def of(
        cls, scores: Float[np.ndarray, " R"], is_leak: Bool[np.ndarray, " R"]
    ) -> "ValidationScores":
        """All recordings; of more than 100,000 so many, evenly by class and rank of the score."""
        order = np.lexsort((scores, is_leak))
        if len(order) > MOST:
            order = order[np.linspace(0, len(order) - 1, MOST).round().astype(int)]
        kept = np.sort(order)
        return cls(scores[kept], is_leak[kept])

    def tensors(self, split: str = VAL) -> "dict[str, Tensor]":
        """The scores and labels as tensors of a model file."""
        import torch  # a work list reads the scores without it

        values = (torch.tensor(self.scores), torch.tensor(self.is_leak))
        return dict(zip(_names(split), values, strict=True))

    @classmethod
    def from_file(cls, tensors: Mapping[str, Any], split: str = VAL) -> "ValidationScores | None":
        """Back from the tensors or arrays of a model file; None where it keeps none of that split.

        Raises:
            ValueError: the tensors have other shapes or types.
        """
        names = _names(split)
        if not set(names) <= tensors.keys():
            return None
        scores, is_leak = (np.asarray(tensors[name]) for name in names)
        ok = scores.dtype == np.float64 and is_leak.dtype == bool and scores.ndim == 1
        if not ok or scores.shape != is_leak.shape:
            raise ValueError(f"{' and '.join(names)} do not fit together")
        return cls(scores, is_leak)


def _names(split: str) -> tuple[str, ...]:
    return tuple(name for name in KEPT if name.startswith(f"{split}."))
