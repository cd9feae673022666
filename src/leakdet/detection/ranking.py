"""Labelled scores in descending order, shared by thresholds, metrics and their intervals.

A *cut* calls the rows of the highest `j` distinct scores leaks: `C` distinct scores allow `C + 1`
cuts, and every threshold makes one of them. Row weights (how often a bootstrap drew a row) change
the counts at the cuts, never the order: one sort serves thousands of replicates.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from leakdet.errors import InputError

# tolerance of a rate times a count: 0.29 * 100 is 28.999999999999996 in floating point
COUNT_SLACK = 1e-6


def checked_scores(
    scores: Float[np.ndarray, " N"], *, probabilities: bool = True
) -> Float[np.ndarray, " N"]:
    """Scores in float64. Raises `InputError` on NaN, infinity, and probabilities outside [0, 1]."""
    checked = scores.astype(np.float64, copy=False)
    bad = ~((checked >= 0.0) & (checked <= 1.0)) if probabilities else ~np.isfinite(checked)
    if bad.any():
        row = int(np.argmax(bad))
        allowed = (
            "a probability in [0, 1] (were logits passed?)" if probabilities else "a finite number"
        )
        raise InputError(
            f"The score in row {row} is {checked[row]}, not {allowed}; "
            f"{int(bad.sum())} of {len(checked)} rows are at fault."
        )
    return checked


@dataclass(frozen=True)
class Cuts:
    """Leaks found and false alarms raised at each cut, from none to all, under `B` weightings."""

    tp: Int[np.ndarray, "B cuts"]
    fp: Int[np.ndarray, "B cuts"]

    @property
    def positives(self) -> Int[np.ndarray, " B"]:
        """Leak rows."""
        return self.tp[:, -1]

    @property
    def negatives(self) -> Int[np.ndarray, " B"]:
        """Rows without a leak."""
        return self.fp[:, -1]


@dataclass(frozen=True)
class Ranking:
    """Rows sorted by descending score, and where each distinct score ends.

    `order` indexes the rows as given; `scores` and `is_leak` are sorted; `ends` is one past the
    last row of each distinct score. Among equal scores leaks come first, so that nothing depends on
    the order of the rows.
    """

    order: Int[np.ndarray, " N"]
    scores: Float[np.ndarray, " N"]
    is_leak: Bool[np.ndarray, " N"]
    ends: Int[np.ndarray, " C"]

    @cached_property
    def distinct(self) -> Float[np.ndarray, " C"]:
        """The distinct scores, descending."""
        return np.asarray(self.scores[self.ends - 1])

    @cached_property
    def leak_cuts(self) -> Int[np.ndarray, " L"]:
        """The cuts that add a leak to the one before."""
        leaks = self.cuts().tp[0]
        return np.flatnonzero(leaks[1:] > leaks[:-1]) + 1

    @cached_property
    def error(self) -> Float[np.ndarray, " N"]:
        """Score minus label, 0 or 1, in sorted order."""
        return np.asarray(self.scores - self.is_leak)

    def cut(self, threshold: float) -> int:
        """The cut that `score >= threshold` makes."""
        return len(self.distinct) - int(
            np.searchsorted(self.distinct[::-1], threshold, side="left")
        )

    def cuts(self, weights: Int[np.ndarray, "B N"] | None = None) -> Cuts:
        """Weighted counts at every cut; weights are in sorted order, None means each row once."""
        if weights is None:
            weights = np.ones((1, len(self.scores)), np.int64)
        # Integers: a cumulative sum of floats takes four times as long.
        tp, called = self._cumulative(weights * self.is_leak), self._cumulative(weights)
        called -= tp
        return Cuts(tp, called)

    def _cumulative(self, weights: np.ndarray) -> np.ndarray:
        running = np.empty((len(weights), len(self.scores) + 1), np.int64)
        running[:, 0] = 0
        np.cumsum(weights, axis=1, out=running[:, 1:])
        if len(self.ends) == len(self.scores):
            return running
        return running[:, np.concatenate(([0], self.ends))]


def rank(
    scores: Float[np.ndarray, " N"], is_leak: Bool[np.ndarray, " N"], *, probabilities: bool = True
) -> Ranking:
    """Sort labelled scores. Raises as `checked_scores`, and `ValueError` on unequal lengths."""
    checked = checked_scores(scores, probabilities=probabilities)
    if len(is_leak) != len(checked):
        raise ValueError(f"{len(checked)} scores have {len(is_leak)} labels")
    order = np.lexsort((~is_leak, -checked))
    falling = checked[order]
    last = np.append(falling[1:] != falling[:-1], True) if len(falling) else np.zeros(0, np.bool_)
    return Ranking(order, falling, is_leak[order], np.flatnonzero(last) + 1)
