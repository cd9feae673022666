import math

import numpy as np
import pytest

from leakdet.errors import InputError
from leakdet.evaluation.model_comparison import (
    compare,
    mcnemar,
    recording_differences,
    recording_rows,
)


def test_a_better_model_is_named_and_an_equal_one_is_not(scored):
    weak, strong = scored(n=200, gap=0.05), scored(n=200, gap=0.5)
    comparison = compare(weak, strong, ("weak", "strong"), replicates=200)
    accuracy = comparison["differences"][0]
    assert accuracy["difference"] == pytest.approx(weak.wrong.mean() - strong.wrong.mean())
    assert accuracy["interval"][0] > 0
    assert comparison["mcnemar"]["only_b"] == (weak.wrong & ~strong.wrong).sum()
    assert comparison["sentence"].startswith("B is better: of 200 recordings")
    assert compare(strong, weak, ("s", "w"), replicates=200)["sentence"].startswith("A is better")
    assert compare(weak, weak, ("w", "w"), replicates=50)["sentence"].startswith(
        "No measurable difference"
    )


def test_recordings_are_compared_one_by_one(scored):
    a, b = scored(n=8), scored(n=8)
    b.score = a.score.copy()
    b.score[3] += np.float32(0.004)
    b.score[6] = 1.0 - a.score[6]  # on the other side of the threshold
    found = recording_differences(a, b)
    assert found["largest"] == pytest.approx(abs(1.0 - 2.0 * a.score[6]))
    assert (found["median"], found["where"], found["ids"]) == (0.0, "r6", ["r6"])
    assert "(r6), in the median by 0.0e+00; 1 of 8 verdicts differ: r6." in found["sentence"]
    assert compare(a, b, ("a", "b"), replicates=50)["recordings"] == found
    assert recording_differences(a, a)["sentence"] == (
        "Recording by recording, leak_prob is the same; none of 8 verdicts differs."
    )


def test_rows_pair_the_recordings_that_both_were_scored_on(scored):
    a, b = scored(n=6), scored(n=6, seed=1)
    rows = list(recording_rows(a, b.take(np.array([4, 1]))))
    assert [row["recording_id"] for row in rows] == ["r1", "r4"]
    for row, at in zip(rows, (1, 4), strict=True):
        assert (row["leak_prob_a"], row["leak_prob_b"]) == (
            pytest.approx(a.score[at], abs=1e-6),
            pytest.approx(b.score[at], abs=1e-6),
        )
        assert row["difference"] == pytest.approx(b.score[at] - a.score[at], rel=1e-2)
        assert row["same_decision"] == (a.decision[at] == b.decision[at])


def test_only_the_same_recordings_are_compared(scored):
    with pytest.raises(InputError, match="same recordings"):
        compare(scored(n=10), scored(n=12), ("a", "b"))


@pytest.mark.parametrize(
    ("only_a", "only_b"), [(0, 0), (1, 0), (3, 9), (9, 3), (50, 50), (0, 40), (700, 820)]
)
def test_mcnemar_is_the_exact_binomial_test(only_a, only_b):
    correct_a = np.array([True] * only_a + [False] * only_b + [True, False])
    correct_b = np.array([False] * only_a + [True] * only_b + [True, False])
    test = mcnemar(correct_a, correct_b)
    n = only_a + only_b
    tail = sum(math.comb(n, k) for k in range(min(only_a, only_b) + 1)) / 2**n
    assert (test["only_a"], test["only_b"]) == (only_a, only_b)
    assert test["p_value"] == pytest.approx(min(1.0, 2 * tail), rel=1e-9)
