import numpy as np
import pytest
from sklearn.metrics import auc, precision_recall_curve, roc_curve

from leakdet.evaluation.curves import MAX_POINTS, curves, thinned


def drawn(n, seed=0):
    rng = np.random.default_rng(seed)
    is_leak = rng.random(n) < 0.4
    return np.clip(rng.normal(0.4 + 0.2 * is_leak, 0.2), 0, 1), is_leak


def test_roc_corners_equal_scikit_learn():
    scores, is_leak = drawn(60)
    fpr, tpr, _ = roc_curve(is_leak, scores, drop_intermediate=False)
    every = {(round(x, 6), round(y, 6)) for x, y in zip(fpr, tpr, strict=True)}
    points = curves(scores, scores, is_leak)["roc"]
    assert {tuple(point) for point in points} <= every
    assert auc(*zip(*points, strict=True)) == pytest.approx(auc(fpr, tpr), abs=1e-5)


def test_precision_recall_lies_on_scikit_learns_curve():
    scores, is_leak = drawn(60)
    precision, recall, _ = precision_recall_curve(is_leak, scores)
    reference = {(round(r, 6), round(p, 6)) for r, p in zip(recall, precision, strict=True)}
    points = curves(scores, scores, is_leak)["precision_recall"]
    assert {tuple(point) for point in points} <= reference
    assert [point[0] for point in points] == sorted(point[0] for point in points)


def test_a_thinned_curve_has_few_points_and_the_same_area():
    scores, is_leak = drawn(100_000)
    fpr, tpr, _ = roc_curve(is_leak, scores)
    thin = np.array(curves(scores, scores, is_leak)["roc"])
    assert len(thin) <= MAX_POINTS + 2
    assert auc(thin[:, 0], thin[:, 1]) == pytest.approx(auc(fpr, tpr), abs=1e-3)


def test_ends_stay():
    points = np.array([[0.0, 0.0], [0.0, 0.5], [0.0, 1.0], [0.5, 1.0], [1.0, 1.0]])
    assert thinned(points).tolist() == [[0, 0], [0, 1], [1, 1]]


def test_histogram_and_reliability_count_every_recording():
    scores, is_leak = drawn(500)
    result = curves(scores, scores, is_leak)
    assert sum(result["histogram"]["leak"]) == is_leak.sum()
    assert sum(result["histogram"]["no_leak"]) == (~is_leak).sum()
    assert sum(row["n"] for row in result["reliability"]) == 500
    for row in result["reliability"]:
        inside = (scores >= row["low"]) & ((scores < row["high"]) | (row["high"] == 1.0))
        assert row["leak_share"] == pytest.approx(is_leak[inside].mean())
        assert row["interval"][0] <= row["leak_share"] <= row["interval"][1]


@pytest.mark.parametrize("leak", [True, False])
def test_one_class_has_no_curve_but_a_histogram(leak):
    result = curves(np.array([0.2, 1.0]), np.array([0.2, 1.0]), np.full(2, leak))
    assert result["roc"] is None
    assert result["precision_recall"] is None
    assert sum(result["histogram"]["leak" if leak else "no_leak"]) == 2
