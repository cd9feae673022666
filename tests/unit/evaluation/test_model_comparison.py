import math

import numpy as np
import pytest

from leakdet.errors import InputError
from leakdet.evaluation.model_comparison import compare, mcnemar


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
