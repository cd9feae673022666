"""Better, worse, or too few to tell: two models on recordings that neither has met."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from leakdet.evaluation.intervals import paired_difference
from leakdet.evaluation.scored_recordings import ScoredRecordings
from leakdet.learning.held_out import FEWEST_TO_DECIDE

BETTER, WORSE, TOO_FEW = "better", "worse", "too few to tell"
LOWER = "lower"  # of the old test recordings: not beyond chance
# Decisions have a threshold of each model's own, or of each fold's.
BY_SCORE, BY_DECISION = ("auroc",), ("balanced_accuracy", "recall", "fpr")


def differences(old: ScoredRecordings, new: ScoredRecordings) -> list[dict[str, Any]]:
    """Paired differences, new minus old, of ranking and of decisions; see `paired_difference`."""
    decided = old.decision.astype(np.float64), new.decision.astype(np.float64)
    compared = [(old.score, new.score, metric) for metric in BY_SCORE]
    compared += [(*decided, metric) for metric in BY_DECISION]
    return [
        paired_difference(a, b, old.is_leak, metric, threshold_a=0.5, threshold_b=0.5)
        for a, b, metric in compared
    ]


def judged(rows: Sequence[Mapping[str, Any]], recordings: int) -> str:
    """The verdict by the intervals of AUROC and balanced accuracy; none from fewer than eight."""
    if recordings < FEWEST_TO_DECIDE:
        return TOO_FEW
    intervals = [row["interval"] for row in rows[:2] if row["interval"] is not None]
    risen = any(low > 0 for low, _ in intervals)
    fallen = any(high < 0 for _, high in intervals)
    if risen == fallen:
        return TOO_FEW
    return BETTER if risen else WORSE


def comparison_sentence(rows: Sequence[Mapping[str, Any]]) -> str:
    """The AUROC and balanced accuracy before and after, with the interval of the difference."""
    return "; ".join(_change(row) for row in rows[:2])


def _change(row: Mapping[str, Any]) -> str:
    name = {"auroc": "AUROC", "balanced_accuracy": "balanced accuracy"}[row["metric"]]
    if row["a"] is None or row["b"] is None:
        return f"{name} cannot be compared ({row['note']})"
    text = f"{name} {row['a']:.2f} before, {row['b']:.2f} after"
    if row["interval"] is None:
        return text
    low, high = row["interval"]
    if low == high:
        return f"{text} (the same in every resample of so few)"
    return f"{text} (difference {row['difference']:+.2f}, 95 % interval {low:+.2f} to {high:+.2f})"


def regression(rows: Sequence[Mapping[str, Any]], recordings: int) -> str:
    """`worse`, `lower` or "" on the old test recordings: beyond chance, or within it."""
    if judged(rows, recordings) == WORSE:
        return WORSE
    lower = any(row["difference"] is not None and row["difference"] < 0 for row in rows[:2])
    return LOWER if lower else ""
