import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakdet.core.errors import SettingsError
from leakdet.detection.thresholds import rank
from leakdet.evaluation import intervals
from leakdet.evaluation.intervals import bootstrap_intervals, f1_interval, paired_difference, wilson
from leakdet.evaluation.metrics import RATES, binary_metrics, score_set


def drawn(n, seed=0, gap=0.2, decimals=9):
    rng = np.random.default_rng(seed)
    is_leak = rng.random(n) < 0.4
    return np.clip(rng.normal(0.4 + gap * is_leak, 0.2), 0, 1).round(decimals), is_leak


@pytest.mark.parametrize("decimals", [1, 9])
def test_weighted_replicates_equal_scoring_the_drawn_rows(decimals):
    scores, is_leak = drawn(40, decimals=decimals)
    ranking = rank(scores, is_leak)
    weights = np.random.default_rng(1).multinomial(40, np.full(40, 1 / 40), size=50)
    weighted = score_set(ranking, 0.5, weights[:, ranking.order])
    values = {key: metric(weighted) for key, metric in RATES.items()}
    for row, counts in enumerate(weights):
        drawn_again = np.repeat(np.arange(40), counts)
        expected = binary_metrics(scores[drawn_again], is_leak[drawn_again], 0.5)
        for key in RATES:
            if expected[key] is not None:
                assert values[key][row] == pytest.approx(expected[key], abs=1e-12), key


@pytest.mark.parametrize("grouped", [False, True])
def test_intervals_equal_those_of_naive_resampling(grouped):
    scores, is_leak = drawn(300)
    groups = np.arange(300) // 5 if grouped else None
    result = bootstrap_intervals(scores, is_leak, 0.5, groups, replicates=2000)
    rng, values = np.random.default_rng(7), []
    for _ in range(2000):
        rows = (
            (5 * rng.integers(0, 60, 60)[:, None] + np.arange(5)).ravel()
            if grouped
            else rng.integers(0, 300, 300)
        )
        called, leak = scores[rows] >= 0.5, is_leak[rows]
        values.append(2 * (called & leak).sum() / (called.sum() + leak.sum()))
    assert result["f1"] == pytest.approx(np.quantile(values, [0.025, 0.975]), abs=0.01)
    assert result["note"] is None


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    truth, covered = 0.5, 0
    for seed in range(120):
        scores = np.random.default_rng(seed).random(80)
        low, high = bootstrap_intervals(
            scores, np.ones(80, np.bool_), truth, replicates=200, seed=seed
        )["recall"]
        covered += low <= truth <= high
    assert 0.89 <= covered / 120 <= 0.99


def test_rows_that_stand_or_fall_together_widen_the_interval():
    scores, is_leak = drawn(60)
    tenfold = np.repeat(scores, 10), np.repeat(is_leak, 10)
    groups = np.repeat(np.array([f"site {i}" for i in range(60)]), 10)
    single = bootstrap_intervals(scores, is_leak, 0.5)
    naive = bootstrap_intervals(*tenfold, 0.5)
    by_site = bootstrap_intervals(*tenfold, 0.5, groups)
    width = {
        name: np.diff(result["auroc"])[0]
        for name, result in [("1", single), ("10", naive), ("site", by_site)]
    }
    assert width["site"] == pytest.approx(width["1"], rel=0.1)
    assert width["10"] < width["1"] / 2.5


def test_neither_order_nor_block_size_changes_an_interval(monkeypatch):
    scores, is_leak = drawn(200)
    groups = np.arange(200) % 20
    order = np.random.default_rng(3).permutation(200)
    for by in (None, groups):
        result = bootstrap_intervals(scores, is_leak, 0.5, by, replicates=300)
        shuffled = None if by is None else by[order]
        moved = bootstrap_intervals(scores[order], is_leak[order], 0.5, shuffled, replicates=300)
        monkeypatch.setattr(intervals, "_BLOCK", 700)
        small_blocks = bootstrap_intervals(scores, is_leak, 0.5, by, replicates=300)
        monkeypatch.undo()
        for key in RATES:
            assert moved[key] == (
                result[key] if result[key] is None else pytest.approx(result[key], abs=1e-12)
            )
            assert small_blocks[key] == (
                result[key] if result[key] is None else pytest.approx(result[key], abs=1e-12)
            )


def test_few_groups_one_group_and_no_rows_are_noted():
    scores, is_leak = drawn(50)
    few = bootstrap_intervals(scores, is_leak, 0.5, np.arange(50) % 4, replicates=50)
    assert "4 groups" in few["note"]
    one = bootstrap_intervals(scores, is_leak, 0.5, np.zeros(50, np.int64), replicates=50)
    assert one["f1"] is None
    assert one["note"].startswith("no interval ")
    assert one["note"].endswith(" 1 groups")
    none = bootstrap_intervals(np.zeros(0), np.zeros(0, np.bool_), 0.5)
    assert none["f1"] is None
    assert none["note"].startswith("no interval ")
    assert none["note"].endswith(" 0 recordings")


def test_what_is_undefined_has_no_interval_and_lost_replicates_are_counted():
    scores, _ = drawn(30)
    result = bootstrap_intervals(scores, np.zeros(30, np.bool_), 0.5, replicates=100)
    assert (result["auroc"], result["f1"]) == (None, None)
    assert result["fpr"] is not None
    one_leak = np.arange(30) == 0
    result = bootstrap_intervals(scores, one_leak, 0.5, replicates=400)
    assert result["recall"] is not None
    assert "recall in 1" in result["note"]
    assert result["tpr_at_fpr_0.001"] is None


def test_a_bootstrap_without_replicates_is_refused():
    scores, is_leak = drawn(10)
    with pytest.raises(SettingsError, match="at least 1 replicate; 0 were asked for"):
        bootstrap_intervals(scores, is_leak, 0.5, replicates=0)


def test_paired_difference_is_sharper_than_two_intervals():
    good, is_leak = drawn(400, gap=0.4)
    worse = np.clip(good + np.random.default_rng(5).normal(0, 0.2, 400), 0, 1)
    difference = paired_difference(worse, good, is_leak, "auroc", threshold_a=0.6, threshold_b=0.6)
    a, b = (binary_metrics(scores, is_leak, 0.6)["auroc"] for scores in (worse, good))
    assert (difference["a"], difference["b"], difference["difference"]) == (a, b, b - a)
    low, high = difference["interval"]
    assert 0 < low < b - a < high
    alone = [
        np.diff(bootstrap_intervals(scores, is_leak, 0.6)["auroc"])[0] for scores in (worse, good)
    ]
    assert high - low < 0.95 * np.hypot(*alone)


def test_a_model_does_not_differ_from_itself_in_any_metric():
    scores, is_leak = drawn(300)
    for metric in RATES:
        difference = paired_difference(
            scores,
            scores,
            is_leak,
            metric,
            threshold_a=0.5,
            threshold_b=0.5,
            groups=np.arange(300) // 3,
            replicates=50,
        )
        if difference["a"] is None:
            assert difference["interval"] is None
            assert "undefined" in difference["note"]
        else:
            assert difference["interval"] == [0.0, 0.0]


def test_paired_difference_of_an_unknown_metric_or_one_group():
    scores, is_leak = drawn(20)
    thresholds = {"threshold_a": 0.5, "threshold_b": 0.5}
    with pytest.raises(SettingsError, match="f2"):
        paired_difference(scores, scores, is_leak, "f2", **thresholds)
    difference = paired_difference(
        scores, scores, is_leak, "f1", **thresholds, groups=np.zeros(20, np.int64)
    )
    assert (difference["difference"], difference["interval"]) == (0.0, None)


@given(n=st.integers(1, 500), share=st.floats(0, 1))
def test_wilson_solves_its_equation(n, share):
    """Its ends are the shares p that lie 1.96 standard errors of p from the observed share."""
    hits = round(share * n)
    low, high = wilson(hits, n)
    assert 0.0 <= low <= hits / n <= high <= 1.0
    for end in (low, high):
        deviation = (hits / n - end) ** 2 - 1.959964**2 * end * (1.0 - end) / n
        assert deviation == pytest.approx(0.0, abs=1e-6)


def test_no_share_of_nothing():
    assert wilson(0, 0) is None
    assert f1_interval(0, 0) is None


def test_the_interval_of_f1_holds_f1_and_its_ends_are_those_of_the_share():
    low, high = f1_interval(40, 10)
    assert low < 2 * 40 / (2 * 40 + 10) < high
    share = wilson(40, 50)
    assert [low / (2 - low), high / (2 - high)] == pytest.approx(share)
