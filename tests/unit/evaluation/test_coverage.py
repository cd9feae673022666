import numpy as np
import pytest

from leakdet.detection.decision import DecisionRule
from leakdet.evaluation.coverage import coverage_table, risk_coverage
from leakdet.evaluation.intervals import share_intervals, wilson
from leakdet.evaluation.metrics_json import split_metrics


def test_shares_count_what_is_decided():
    is_leak = np.array([1, 1, 1, 1, 0, 0, 0, 0], bool)
    decision = np.array([1, 1, 0, 1, 0, 1, 0, 1], bool)
    reason = np.array(["", "doubt", "", "", "", "", "unfamiliar", "doubt"])
    table = coverage_table(is_leak, decision, reason, None, 50)
    assert [table[key] for key in ("tp", "fn", "fp", "tn", "decided")] == [2, 1, 1, 1, 5]
    assert table["undecided"] == {"unfamiliar": 1, "doubt": 2}
    assert table["undecided_leaks"] == {"doubt": 1}
    assert table["share_decided"] == 5 / 8
    assert (table["wrong_of_decided"], table["wrong_of_all"]) == (2 / 5, 2 / 8)
    assert (table["recall"], table["fpr"]) == (2 / 3, 1 / 2)


def test_without_a_rule_that_leaves_undecided_everything_is_decided(scored):
    tables = split_metrics(scored(40), 100)
    coverage, recording = tables["coverage"], tables["recording"]
    assert coverage["undecided"] == {}
    assert coverage["share_decided"] == 1.0
    assert coverage["wrong_of_decided"] == coverage["wrong_of_all"]
    assert coverage["wrong_of_all"] == pytest.approx(1.0 - recording["accuracy"])
    assert (coverage["recall"], coverage["fpr"]) == (recording["recall"], recording["fpr"])


def test_where_nothing_is_decided_the_error_is_undefined():
    table = coverage_table(np.ones(3, bool), np.ones(3, bool), np.full(3, "doubt"), None, 20)
    assert (table["share_decided"], table["wrong_of_all"]) == (0.0, 0.0)
    for key in ("wrong_of_decided", "recall", "fpr"):
        assert table[key] is table["intervals"][key] is None
        assert table["undefined"][key]


def test_intervals_of_shares_draw_whole_groups():
    rng = np.random.default_rng(0)
    site = np.repeat(np.arange(20), 10)
    hits = np.repeat(rng.random(20) < 0.5, 10)  # recordings of a site are alike
    every = np.ones(200, bool)
    alone, grouped = (share_intervals({"x": (hits, every)}, units)["x"] for units in (None, site))
    assert alone == pytest.approx(wilson(int(hits.sum()), 200), abs=0.02)
    assert grouped[1] - grouped[0] > 2 * (alone[1] - alone[0])
    order = rng.permutation(200)
    assert share_intervals({"x": (hits[order], every)})["x"] == alone
    assert share_intervals({"x": (~every, every)})["x"] == wilson(0, 200)  # all draws are alike
    assert share_intervals({"x": (~every, every)}, site)["x"] == wilson(0, 200)
    repeats = np.arange(200) // 2  # two rows of each recording
    assert share_intervals({"x": (~every, every)}, site, 9, repeats)["x"] == wilson(0, 100)
    assert share_intervals({"x": (hits, every)}, np.zeros(200))["x"] is None


def test_the_curve_goes_through_the_band_of_the_rule():
    rng = np.random.default_rng(1)
    is_leak = rng.random(300) < 0.5
    scores = np.clip(rng.normal(0.4 + 0.2 * is_leak, 0.2), 0.01, 0.99)
    threshold = np.full(300, 0.6)
    decided, wrong = risk_coverage(scores, threshold, is_leak)
    assert (decided[-1], wrong[-1]) == (1.0, ((scores >= 0.6) != is_leak).mean())
    for doubt in (0.1, 0.2, 0.3):
        reason = DecisionRule(threshold=0.6, doubt=doubt).undecided(scores)
        table = coverage_table(is_leak, scores >= 0.6, reason, None, 1)
        at = np.searchsorted(decided, table["share_decided"])
        assert decided[at] == table["share_decided"]
        assert wrong[at] == table["wrong_of_decided"]


def test_recordings_of_one_distance_are_decided_together_and_some_thresholds_have_no_curve():
    scores, is_leak = np.array([0.2, 0.8, 0.9]), np.array([True, True, True])
    decided, wrong = risk_coverage(scores, np.full(3, 0.5), is_leak)
    assert decided.tolist() == pytest.approx([1 / 3, 1.0])
    assert wrong.tolist() == pytest.approx([0.0, 1 / 3])
    assert risk_coverage(scores, np.zeros(3), is_leak) is None
    assert risk_coverage(scores[:0], np.full(0, 0.5), is_leak[:0]) is None
