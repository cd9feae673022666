import re
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk
from torchmetrics.functional.classification import binary_calibration_error

from leakdet.core.errors import InputError
from leakdet.detection.thresholds import rank
from leakdet.evaluation.metrics import (
    COUNTS,
    FPR_POINTS,
    RATES,
    TPR_POINTS,
    auroc,
    binary_metrics,
    precision_at,
    score_set,
)


@st.composite
def labelled(draw):
    elements = draw(st.sampled_from([st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(0, 1)]))
    rows = draw(
        st.lists(st.tuples(elements, st.booleans(), st.integers(0, 3)), min_size=1, max_size=40)
    )
    return tuple(np.array(column) for column in zip(*rows, strict=True))


def drawn(n, leak_share=0.3, seed=0, decimals=9):
    rng = np.random.default_rng(seed)
    is_leak = rng.random(n) < leak_share
    return np.clip(rng.normal(0.4 + 0.2 * is_leak, 0.2), 0, 1).round(decimals), is_leak


def by_scikit_learn(scores, is_leak, threshold):
    called = scores >= threshold
    tn, fp, fn, tp = (
        int(v) for v in sk.confusion_matrix(is_leak, called, labels=[False, True]).ravel()
    )
    p, n = tp + fn, tn + fp
    expected = {
        "n": p + n,
        "positives": p,
        "negatives": n,
        "predicted_positives": tp + fp,
        "tp": tp,
        "fp": fp,
        "fn": fn,
        "tn": tn,
    }
    expected["accuracy"] = sk.accuracy_score(is_leak, called)
    expected["brier"] = float(np.mean((scores - is_leak) ** 2))
    if tp + fp:
        expected["precision"] = sk.precision_score(is_leak, called)
    if p:
        expected["recall"] = sk.recall_score(is_leak, called)
        expected["f1"] = sk.f1_score(is_leak, called, zero_division=0.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected["average_precision"] = sk.average_precision_score(is_leak, scores)
    if n:
        expected["specificity"] = sk.recall_score(~is_leak, ~called)
        expected["fpr"] = fp / n
        expected["smallest_resolvable_fpr"] = 1 / n
    if p and n:
        expected["brier"] = sk.brier_score_loss(is_leak, scores)
        expected["balanced_accuracy"] = sk.balanced_accuracy_score(is_leak, called)
        expected["auroc"] = sk.roc_auc_score(is_leak, scores)
        fpr, tpr, _ = sk.roc_curve(is_leak, scores, drop_intermediate=False)
        for limit in FPR_POINTS:
            if limit * n >= 1:
                expected[f"tpr_at_fpr_{limit:g}"] = tpr[fpr <= limit].max()
        for limit in TPR_POINTS:
            if (1 - limit) * p >= 1 - 1e-9:
                expected[f"fpr_at_tpr_{limit:g}"] = fpr[tpr >= limit].min()
    return expected


def check(scores, is_leak, threshold):
    table = binary_metrics(scores, is_leak, threshold)
    # In float64: scikit-learn computes in the type that it is given.
    expected = by_scikit_learn(scores.astype(np.float64), is_leak, threshold)
    assert set(table) == {*COUNTS, *RATES, "smallest_resolvable_fpr", "undefined"}
    for key, value in table.items():
        if key == "undefined":
            assert set(value) == {k for k, v in table.items() if v is None}
        elif value is None:
            assert key not in expected
        elif key != "ece":
            assert value == pytest.approx(expected[key], abs=1e-9), key


@settings(max_examples=60, deadline=None)
@given(labelled(), st.sampled_from([0.0, 0.25, 0.3, 1.0, 1.1]))
def test_every_metric_equals_scikit_learn_on_small_and_degenerate_sets(data, threshold):
    check(data[0], data[1], threshold)


@pytest.mark.parametrize("decimals", [1, 2, 9])
@pytest.mark.parametrize("leak_share", [0.002, 0.3, 0.998])
def test_every_metric_equals_scikit_learn_on_large_sets(decimals, leak_share):
    scores, is_leak = drawn(12_000, leak_share, decimals=decimals)
    check(scores, is_leak, 0.5)
    check(scores.astype(np.float32), is_leak, 0.5)


@settings(max_examples=60, deadline=None)
@given(labelled(), st.sampled_from([0.25, 0.3]))
def test_weights_count_as_repeated_rows(data, threshold):
    scores, is_leak, counts = data
    ranking = rank(scores, is_leak)
    weighted = score_set(ranking, threshold, counts[ranking.order][None])
    repeated = binary_metrics(np.repeat(scores, counts), np.repeat(is_leak, counts), threshold)
    for key, metric in RATES.items():
        if repeated[key] is not None:
            assert float(metric(weighted)[0]) == pytest.approx(repeated[key], abs=1e-12), key


@settings(max_examples=60, deadline=None)
@given(labelled(), st.randoms(use_true_random=False))
def test_order_of_rows_changes_nothing(data, random):
    scores, is_leak, _ = data
    order = np.array(random.sample(range(len(scores)), len(scores)), np.int64)
    assert binary_metrics(scores[order], is_leak[order], 0.3) == binary_metrics(
        scores, is_leak, 0.3
    )


def test_calibration_error_equals_torchmetrics_and_a_plain_loop():
    scores, is_leak = drawn(5000)
    table = binary_metrics(scores, is_leak, 0.5)["ece"]
    bins = np.minimum((scores * 15).astype(int), 14)
    gaps = [abs(scores[bins == b].sum() - is_leak[bins == b].sum()) for b in range(15)]
    assert table == pytest.approx(sum(gaps) / 5000, abs=1e-12)
    theirs = binary_calibration_error(
        torch.tensor(scores), torch.tensor(is_leak).long(), n_bins=15, norm="l1"
    )
    assert table == pytest.approx(float(theirs), abs=1e-4)
    assert (
        binary_metrics(np.array([1.0, 0.0, 0.0]), np.array([True, False, False]), 0.5)["ece"] == 0.0
    )
    assert binary_metrics(np.full(4, 0.9), np.arange(4) < 1, 0.5)["ece"] == pytest.approx(0.65)


def test_f1_is_that_of_leak():
    table = binary_metrics(
        np.array([0.0, 0.0, 0.0, 1.0]), np.array([False, False, True, True]), 0.5
    )
    assert table["f1"] == pytest.approx(2 / 3)
    assert (table["fn"], table["fp"], table["predicted_positives"]) == (1, 0, 1)


def test_without_leaks_false_alarms_are_still_reported():
    table = binary_metrics(np.array([0.1, 0.9]), np.array([False, False]), 0.5)
    assert (table["f1"], table["auroc"], table["recall"], table["fpr"]) == (None, None, None, 0.5)
    assert "none of 2 rows" in table["undefined"]["auroc"]


def test_nothing_called_a_leak_leaves_precision_open_and_f1_at_zero():
    table = binary_metrics(np.array([0.1, 0.2]), np.array([False, True]), 0.5)
    assert (table["precision"], table["f1"]) == (None, 0.0)
    assert "nothing is called a leak" in table["undefined"]["precision"]


def test_a_rate_that_the_sample_cannot_resolve_says_so():
    scores, _ = drawn(600)
    is_leak = np.arange(600) < 100
    table = binary_metrics(scores, is_leak, 0.5)
    assert table["tpr_at_fpr_0.01"] is not None
    assert table["tpr_at_fpr_0.0001"] is None
    assert re.search(r"500 negatives .*0\.002", table["undefined"]["tpr_at_fpr_0.0001"])
    assert table["smallest_resolvable_fpr"] == 0.002


def test_no_rows_at_all():
    table = binary_metrics(np.zeros(0), np.zeros(0, np.bool_), 0.5)
    assert (table["n"], table["tp"], table["accuracy"], table["auroc"]) == (0, 0, None, None)
    (reason,) = set(table["undefined"].values())
    assert "nothing to score" in reason


def test_scores_that_are_no_probabilities():
    scores, is_leak = np.array([-30.0, -20.0, -25.0]), np.array([False, True, True])
    with pytest.raises(InputError, match="were logits passed"):
        binary_metrics(scores, is_leak, -26.0)
    table = binary_metrics(scores, is_leak, -26.0, probabilities=False)
    assert (table["auroc"], table["f1"], table["brier"]) == (1.0, 1.0, None)
    assert "not probabilities" in table["undefined"]["brier"]
    with pytest.raises(InputError, match="not a finite number"):
        binary_metrics(np.array([np.inf]), np.array([True]), 0.0, probabilities=False)


def test_auroc_of_any_numbers():
    assert auroc(np.array([-30.0, -20.0, -20.0]), np.array([False, True, False])) == 0.75
    assert auroc(np.array([1.0, 2.0]), np.array([True, True])) is None


def test_precision_at_the_share_of_the_rows_is_the_precision():
    scores, is_leak = drawn(500)
    table = binary_metrics(scores, is_leak, 0.5)
    here = precision_at(table["recall"], table["fpr"], table["positives"] / table["n"])
    assert here == pytest.approx(table["precision"])
    assert precision_at(table["recall"], table["fpr"], 0.01) < table["precision"]
    assert precision_at(0.0, 0.0, 0.5) is None
