import numpy as np
import pytest
from sklearn.metrics import auc, precision_recall_curve, roc_curve

from leakdet.detection.decision import DecisionRule
from leakdet.evaluation.intervals import bootstrap_intervals
from leakdet.evaluation.metrics import RATES, binary_metrics
from leakdet.evaluation.metrics_json import (
    MAX_POINTS,
    OF_THRESHOLD,
    curves,
    for_model_file,
    metric_table,
    metrics_content,
    split_metrics,
    thinned,
)


def drawn(n, seed=0):
    rng = np.random.default_rng(seed)
    is_leak = rng.random(n) < 0.4
    return np.clip(rng.normal(0.4 + 0.2 * is_leak, 0.2), 0, 1), is_leak


def half(scores):
    return np.full(len(scores), 0.5)


def test_roc_corners_equal_scikit_learn():
    scores, is_leak = drawn(60)
    fpr, tpr, _ = roc_curve(is_leak, scores, drop_intermediate=False)
    every = {(round(x, 6), round(y, 6)) for x, y in zip(fpr, tpr, strict=True)}
    points = curves(scores, scores, is_leak, half(scores))["roc"]
    assert {tuple(point) for point in points} <= every
    assert auc(*zip(*points, strict=True)) == pytest.approx(auc(fpr, tpr), abs=1e-5)


def test_precision_recall_lies_on_scikit_learns_curve():
    scores, is_leak = drawn(60)
    precision, recall, _ = precision_recall_curve(is_leak, scores)
    reference = {(round(r, 6), round(p, 6)) for r, p in zip(recall, precision, strict=True)}
    points = curves(scores, scores, is_leak, half(scores))["precision_recall"]
    assert {tuple(point) for point in points} <= reference
    assert [point[0] for point in points] == sorted(point[0] for point in points)


def test_a_thinned_curve_has_few_points_and_the_same_area():
    scores, is_leak = drawn(100_000)
    fpr, tpr, _ = roc_curve(is_leak, scores)
    thin = np.array(curves(scores, scores, is_leak, half(scores))["roc"])
    assert len(thin) <= MAX_POINTS + 2
    assert auc(thin[:, 0], thin[:, 1]) == pytest.approx(auc(fpr, tpr), abs=1e-3)


def test_ends_stay():
    points = np.array([[0.0, 0.0], [0.0, 0.5], [0.0, 1.0], [0.5, 1.0], [1.0, 1.0]])
    assert thinned(points).tolist() == [[0, 0], [0, 1], [1, 1]]


def test_histogram_and_reliability_count_every_recording():
    scores, is_leak = drawn(500)
    result = curves(scores, scores, is_leak, half(scores))
    assert sum(result["histogram"]["leak"]) == is_leak.sum()
    assert sum(result["histogram"]["no_leak"]) == (~is_leak).sum()
    assert sum(row["n"] for row in result["reliability"]) == 500
    for row in result["reliability"]:
        inside = (scores >= row["low"]) & ((scores < row["high"]) | (row["high"] == 1.0))
        assert row["leak_share"] == pytest.approx(is_leak[inside].mean())
        assert row["interval"][0] <= row["leak_share"] <= row["interval"][1]


@pytest.mark.parametrize("leak", [True, False])
def test_one_class_has_no_curve_but_a_histogram(leak):
    result = curves(*[np.array([0.2, 1.0])] * 2, np.full(2, leak), np.full(2, 0.5))
    assert result["roc"] is None
    assert result["precision_recall"] is None
    assert sum(result["histogram"]["leak" if leak else "no_leak"]) == 2


def test_several_thresholds_give_the_counts_of_the_verdicts_and_the_ranking_of_the_scores(scored):
    threshold = np.where(np.arange(60) < 30, 0.45, 0.6)
    recordings = scored(threshold=threshold)
    table = split_metrics(recordings, 50)["recording"]
    assert table["tp"] == (recordings.decision & recordings.is_leak).sum()
    assert table["fn"] == (~recordings.decision & recordings.is_leak).sum()
    assert table["auroc"] == binary_metrics(recordings.score, recordings.is_leak, 0.5)["auroc"]
    assert table["recall"] == table["tp"] / 30
    assert table["intervals"]["recall"][0] <= table["recall"] <= table["intervals"]["recall"][1]


def test_whole_groups_are_resampled_where_there_are_any(scored):
    recordings = scored(n=60)
    recordings.score[recordings.groups["site"] == "s0"] = 0.1  # one site is missed as a whole
    alone, grouped = (
        split_metrics(recordings, 400, by)["recording"]["intervals"] for by in ((), ("site",))
    )
    assert (alone["unit"], grouped["unit"]) == ("recording", "site")
    assert grouped["recall"][1] - grouped["recall"][0] > alone["recall"][1] - alone["recall"][0]
    assert (
        split_metrics(recordings, 50, ("nowhere",))["recording"]["intervals"]["unit"] == "recording"
    )


def test_perfect_results_of_few_recordings_have_wide_intervals(scored):
    recordings = scored(n=12, gap=0.0)
    recordings.score = np.where(recordings.is_leak, 0.9, 0.1)
    table = split_metrics(recordings, 100)["recording"]
    for key in ("recall", "specificity", "auroc", "f1"):
        low, high = table["intervals"][key]
        assert (high, table[key]) == (1.0, 1.0)
        assert low < 0.8, key
    assert table["intervals"]["fpr"][1] == pytest.approx(0.39, abs=0.01)
    assert "Wilson" in table["intervals"]["note"]


def test_two_groups_that_are_alike_give_no_interval_without_a_width(scored):
    recordings = scored(n=40)
    recordings.is_leak = np.arange(40) % 2 == 0
    recordings.score = np.where(recordings.is_leak, 0.9, 0.1)
    recordings.score[[0, 20]] = 0.2  # a leak missed in each
    recordings.groups = {"pipe": np.repeat(["p1", "p2"], 20)}
    table = split_metrics(recordings, 100, ("pipe",))["recording"]
    assert table["recall"] == 0.9
    for key in ("recall", "accuracy", "f1", "auroc", "specificity"):
        low, high = table["intervals"][key]
        assert high - low > 0.1, key
    assert "rest on 2 groups only" in table["intervals"]["note"]
    assert "Wilson's" in table["intervals"]["note"]


def test_intervals_of_several_thresholds_are_those_of_the_decisions_and_of_the_ranking(scored):
    recordings = scored(threshold=np.where(np.arange(60) < 30, 0.45, 0.6))
    site = recordings.groups["site"]
    table = metric_table(recordings.score, recordings.is_leak, recordings.threshold, site, 200)
    margin = np.clip(
        0.5 + recordings.score - recordings.threshold, 0.0, 1.0
    )  # >= 0.5 where a leak is called
    at_margin = bootstrap_intervals(margin, recordings.is_leak, 0.5, site, replicates=200)
    ranking = bootstrap_intervals(recordings.score, recordings.is_leak, 0.5, site, replicates=200)
    assert set(table["intervals"]) == {*RATES, "note"}
    for key in RATES:
        assert table["intervals"][key] == (at_margin if key in OF_THRESHOLD else ranking)[key], key
    note = table["intervals"]["note"]
    assert note.count("rest on 6 groups") == 1
    assert "auroc in" in note
    assert "recall in" in note


def test_reasons_for_what_is_undefined_come_from_the_decisions_where_they_decide(scored):
    recordings = scored(threshold=np.where(np.arange(60) < 30, 0.99, 1.0), gap=0.0)
    table = metric_table(recordings.score, recordings.is_leak, recordings.threshold, None, 20)
    assert table["predicted_positives"] == 0
    assert table["precision"] is None
    assert "nothing is called a leak" in table["undefined"]["precision"]
    assert table["undefined"].keys() == {key for key, value in table.items() if value is None}


def test_the_content_names_its_splits_and_rule(scored, schema_errors):
    tables = {name: split_metrics(scored(n=8, name=name), 20) for name in ("val", "test")}
    content = metrics_content(tables, DecisionRule(), ["site"], model="m.safetensors")
    assert schema_errors(content) == []
    assert (content["splits"], content["group_by"]) == (["val", "test"], ["site"])
    assert content["decision_rule"]["threshold"] == 0.5
    assert for_model_file(tables)["val"].keys() == {"recording", "window", "sensors"}
