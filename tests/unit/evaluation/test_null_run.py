"""The null run: its interval covers 0.5 unless labels leak, and leaking labels are found."""

from typing import Any

import numpy as np
import pytest

from leakdet.evaluation.null_run import (
    baseline_aurocs,
    null_result,
    null_run_findings,
    permuted_labels,
)

BANDS = 8


def recordings(seed: int, count: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Features in which leaks differ much, as where a true direction is there to be hit by luck."""
    rng = np.random.default_rng(seed)
    is_leak = np.arange(count) % 2 == 0
    return rng.normal(size=(count, BANDS)) + 1.5 * is_leak[:, None], is_leak


def halves(count: int = 40) -> list[tuple[np.ndarray, np.ndarray]]:
    rows = np.arange(count)
    return [(rows[: count // 2], rows[count // 2 :])]


def test_labels_are_permuted_within_each_part_and_nowhere_else() -> None:
    is_leak = np.arange(30) % 3 == 0
    train, val = np.arange(12), np.arange(12, 20)
    labels = permuted_labels(is_leak, [train, val])
    assert labels.shape == (1000, 30)
    assert (labels[:, train].sum(1) == is_leak[train].sum()).all()
    assert (labels[:, val].sum(1) == is_leak[val].sum()).all()
    assert (labels[:, 20:] == is_leak[20:]).all()
    assert labels[:, :20].mean(0) == pytest.approx(np.full(20, 1 / 3), abs=0.08)
    assert (labels == permuted_labels(is_leak, [train, val])).all()


def test_the_baseline_is_the_difference_of_class_means() -> None:
    """Unpermuted labels give the AUROC of that direction; 0.5 where a class is not scored."""
    features, is_leak = recordings(0)
    ((train, test),) = halves()
    fitted = features[train]
    direction = (fitted[is_leak[train]].mean(0) - fitted[~is_leak[train]].mean(0)) / fitted.var(0)
    score = features[test] @ direction
    expected = np.mean(score[is_leak[test]][:, None] > score[~is_leak[test]][None, :])
    one_class = np.where(np.arange(40) < 20, is_leak, False)
    areas = baseline_aurocs(features, np.stack([is_leak, ~is_leak, one_class]), halves())
    assert areas == pytest.approx([expected, expected, 0.5])
    assert expected > 0.9


@pytest.mark.parametrize(
    ("count", "judged"),
    [(1, "test"), (6, "test"), (6, "permuted too"), (6, "cross-validated")],
)
def test_the_interval_covers_a_half_in_95_of_100_seeds(count: int, judged: str) -> None:
    """The networks' permutations are drawn anew, as those of a linear network would be."""
    covered = []
    rows = np.arange(40)
    folds = halves()
    if judged == "cross-validated":
        folds = [(rows[rows % 4 != k], rows[rows % 4 == k]) for k in range(4)]
    for seed in range(100):
        features, is_leak = recordings(seed)
        parts = {"test": [rows[:20]], "permuted too": [rows[:20], rows[20:]]}.get(judged, [rows])
        networks = baseline_aurocs(features, permuted_labels(is_leak, parts, 1)[:count], folds)
        baseline = baseline_aurocs(features, permuted_labels(is_leak, parts)[:100], folds)
        low, high = null_result(networks.tolist(), baseline)["interval"]
        covered.append(low <= 0.5 <= high)
    assert np.mean(covered) >= 0.95


def test_labels_that_leak_are_found_by_several_permutations_and_not_by_one() -> None:
    """Where recordings differ much, a single permutation reaches 1 by luck."""
    features, is_leak = recordings(3)
    ((train, test),) = halves()
    baseline = baseline_aurocs(features, permuted_labels(is_leak, [train]), [(train, test)])
    grave, mild = null_run_findings(null_result([1.0] * 6, baseline))
    assert mild == []
    assert grave[0].startswith("Null run: on average over 6 permutations of the labels the")
    assert grave[0].endswith("held-out labels leak into the training.")
    assert null_run_findings(null_result([1.0], baseline))[0] == []


def findings(aurocs: list[float], **more: Any) -> str:
    baseline = np.random.default_rng(0).normal(0.5, 0.02, 500)
    grave, mild = null_run_findings(null_result(aurocs, baseline, **more))
    assert grave == []
    return mild[0]


def test_what_chose_the_checkpoint_does_not_accuse() -> None:
    assert "Only a test split can show" in findings([0.9] * 4, chosen_on=True)


def test_what_a_null_run_means_is_said() -> None:
    assert "no better than guessing, as expected" in findings([0.7, 0.4])
    assert "below guessing, as happens with few recordings" in findings([0.2, 0.3])
    assert "a single permutation of a linear model reaches 0.46 to 0.54" in findings([0.5])
