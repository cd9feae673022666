"""Better, worse, or too few to tell."""

from typing import Any

import numpy as np
import pytest

from leakdet.evaluation.scored_recordings import ScoredRecordings
from leakdet.learning.before_after import comparison_sentence, differences, judged, regression


def scored(score: list[float], is_leak: list[int]) -> ScoredRecordings:
    count = len(score)
    return ScoredRecordings(
        "held_out",
        np.arange(count).astype(str),
        np.array(["x"] * count),
        np.array(is_leak, bool),
        np.array(score),
        np.full(count, 0.5),
        np.array(score),
        np.arange(count + 1),
    )


TRUTH = [1] * 6 + [0] * 6
GOOD, POOR = [0.9] * 6 + [0.1] * 6, [0.4, 0.6] * 6


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [(POOR, GOOD, "better"), (GOOD, POOR, "worse"), (GOOD, GOOD, "too few to tell")],
)
def test_the_interval_of_the_difference_decides(old: Any, new: Any, verdict: str) -> None:
    rows = differences(scored(old, TRUTH), scored(new, TRUTH))
    assert judged(rows, 12) == verdict
    assert judged(rows, 7) == "too few to tell"
    assert "AUROC" in comparison_sentence(rows)
    assert "balanced accuracy" in comparison_sentence(rows)


def test_folds_with_other_thresholds_are_compared_by_their_decisions() -> None:
    new = scored(GOOD, TRUTH)
    new.threshold = np.array([0.95] * 6 + [0.5] * 6)
    (_, accuracy, recall, fpr) = differences(scored(GOOD, TRUTH), new)
    assert (accuracy["b"], recall["b"], fpr["b"]) == (0.5, 0.0, 0.0)


def test_a_regression_is_told_from_chance() -> None:
    rows = differences(scored(GOOD, TRUTH), scored(POOR, TRUTH))
    assert regression(rows, 12) == "worse"
    assert regression(rows, 4) == "lower"
    assert regression(differences(scored(POOR, TRUTH), scored(GOOD, TRUTH)), 12) == ""
