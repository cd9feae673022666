from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakdet.core.errors import SettingsError
from leakdet.detection.source_rates import SourceRates
from leakdet.evaluation.scored_recordings import ScoredRecordings
from leakdet.learning.gate import (
    HeldOut,
    Outcome,
    PairedScores,
    comparison_sentence,
    differences,
    fold_keys,
    held_out_group,
    judge_group,
    judge_old_test,
    judge_out_of_fold,
    judged,
    known_of_others,
    parts,
    regression,
)
from leakdet.learning.training import TARGET, Material, train_on
from leakdet.storage.model_file import load_mel_detector
from leakdet.storage.opening import open_labelled
from leakdet.storage.views import SplitView, pooled


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


@pytest.fixture
def added(learner) -> SplitView:
    return pooled([open_labelled(learner.new(16), "train")])


def test_out_of_fold_every_new_recording_is_scored_by_a_model_of_others(
    learner, added: SplitView, tmp_path: Path
) -> None:
    old, trained_on = load_mel_detector(learner.model), []

    def train(rows):
        trained_on.append(set(rows.tolist()))
        material = Material(added, learner.store, TARGET)
        return train_on(learner.config(None), material, rows, tmp_path / str(len(trained_on)))

    found = judge_out_of_fold(old, train, added, 2, 0)
    assert len(trained_on) == 2
    assert set.union(*trained_on) == set(range(16))
    assert sorted(found.new.recording_id) == sorted(added.recording_ids)
    assert (found.new.decision == found.new.is_leak).all()
    assert found.verdict == "better"
    assert found.how.startswith("16 new recordings, ")
    assert found.how.endswith(" sites")


def test_models_of_the_folds_know_the_rates_of_the_one_that_they_stand_for(
    learner, added: SplitView
) -> None:
    """Seven of eight recordings make no rate known; the model of all eight decides them."""
    known, few = (9, 9), (4, 3)
    old = load_mel_detector(learner.model)
    fold = replace(old, sources=SourceRates({4000: known, 8000: few}))
    unknown = judge_out_of_fold(old, lambda _: fold, added, 2, 0, fold.sources).new.reason
    assert unknown is not None
    assert unknown.tolist() == ["other_source"] * 16
    whole = SourceRates({4000: known, 8000: (4, 4)})
    decided = judge_out_of_fold(old, lambda _: fold, added, 2, 0, whole).new.reason
    assert decided is not None
    assert "other_source" not in decided


def test_a_group_that_the_old_model_has_met_decides_nothing(learner) -> None:
    old = load_mel_detector(learner.model)
    train = pooled([open_labelled(learner.store, "train")])
    held_out = HeldOut("sensor", "A", np.flatnonzero(train.groups["sensor"] == "A"))
    found = judge_group(old, old, train, held_out)
    assert found.verdict == "too few to tell"
    assert found.differences == []
    assert "has met in training" in found.sentence()


def test_a_held_out_group_compares_both(learner, added: SplitView) -> None:
    old = load_mel_detector(learner.model)
    rows = np.arange(8, 16)
    found = judge_group(old, old, added, HeldOut("site", "n2", rows))
    assert found.how == "8 recordings of site n2, which trained neither"
    assert [row["difference"] for row in found.differences] == [0.0] * 4
    assert found.verdict == "too few to tell"


def test_what_the_new_model_has_met_of_the_old_test_set_is_left_out(learner) -> None:
    old, test = load_mel_detector(learner.model), open_labelled(learner.store, "test")
    found = judge_old_test(old, old, test, [])
    assert found is not None
    assert len(found.new) == 4
    known = test.texts("content_sha256").tolist()
    found = judge_old_test(old, old, test, known[:2])
    assert found is not None
    assert len(found.new) == 2
    assert judge_old_test(old, old, test, known) is None


SITE = np.array(["a"] * 4 + ["b"] * 8)
LEAK = np.array([1, 0] * 6, bool)
TIME = np.array([f"2026-11-{day:02}" for day in range(1, 13)])


def test_the_newest_group_that_may_decide_is_held_out() -> None:
    found = held_out_group("auto", {"site": SITE, "recorded_at": TIME}, LEAK, 2, [])
    assert found is not None
    assert (found.column, found.value, found.rows.tolist()) == ("site", "b", list(range(4, 12)))


def test_days_of_a_spreadsheet_are_in_the_order_of_time() -> None:
    days = np.array(["28.11.2026"] * 8 + ["02.12.2026"] * 8)
    groups = {"site": np.array(["b"] * 8 + ["a"] * 8), "recorded_at": days}
    found = held_out_group("auto", groups, np.array([1, 0] * 8, bool), 2, [])
    assert found is not None
    assert found.value == "a"


@pytest.mark.parametrize(
    "groups",
    [
        {"site": SITE},  # nothing says which is the newest
        {"site": SITE, "recorded_at": np.array(["11/20/2026"] * 12)},  # it may be any order
        {"site": SITE[::-1].copy(), "recorded_at": TIME},  # the newest has four recordings
        {"weather": SITE, "recorded_at": TIME},  # no place
        {"site": np.array(["b"] * 12), "recorded_at": TIME},  # nothing would be left
    ],
)
def test_otherwise_none_is(groups: dict[str, np.ndarray]) -> None:
    assert held_out_group("auto", groups, LEAK, 2, []) is None


def test_one_may_be_named_or_none() -> None:
    groups = {"site": SITE, "recorded_at": TIME}
    found = held_out_group("site:a", groups, LEAK, 2, [])
    assert found is not None
    assert found.rows.tolist() == [0, 1, 2, 3]
    assert held_out_group("none", groups, LEAK, 2, []) is None


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ("pipe:1", "no column pipe; they have kind, site"),
        ("site:c", "there are a, b"),
        ("kind:leak", "one class only"),
        ("site:b", "fewer than 3"),
    ],
)
def test_what_cannot_judge_is_refused(wanted: str, why: str) -> None:
    groups = {"site": SITE, "kind": np.where(LEAK, "leak", "quiet")}
    with pytest.raises(SettingsError, match=why):
        held_out_group(wanted, groups, LEAK, 3, [])


@pytest.mark.parametrize("size", [2, 3, 8])
def test_every_recording_is_scored_once_by_a_model_of_others(size: int) -> None:
    leaks = np.array([1] * size + [0] * size, bool)
    keys = np.arange(2 * size).astype(str)
    seen: list[int] = []
    for rest, out in parts(keys, leaks, 4, seed=0):
        assert not set(rest) & set(out)
        assert 0 < leaks[rest].sum() < len(rest)
        seen += out.tolist()
    assert sorted(seen) == list(range(2 * size))


def test_places_are_kept_apart_where_several_have_each_class() -> None:
    ids = np.arange(12).astype(str)
    assert fold_keys({"site": SITE}, ids, LEAK)[1] == "site"
    assert fold_keys({"site": np.where(LEAK, "a", "b")}, ids, LEAK)[1] == "recording"
    assert fold_keys({}, ids, LEAK)[1] == "recording"


def test_unverified_recordings_are_kept_apart_by_what_the_folds_keep_apart() -> None:
    ids, files = np.array(["x", "y", "z"]), {"source_file": np.array(["f", "", "g"])}
    assert known_of_others(files, ids, "recording", np.array(["f", "y"])).tolist() == [2]
    assert known_of_others(files, ids, "site", np.array(["a"])).tolist() == []  # none is told


def scores_judged(verdict: str, count: int = 12, how: str = "12 new ones") -> PairedScores:
    zeros = np.zeros(count)
    scored = ScoredRecordings(
        "held_out", zeros, zeros, zeros > 0, zeros, zeros, zeros, np.arange(count + 1)
    )
    row: dict[str, Any] = {"metric": "auroc", "a": 0.9, "b": 0.5, "difference": -0.4}
    rows = [row | {"interval": [-0.6, -0.2], "note": None}]
    return PairedScores(scored, how, verdict, rows)


@pytest.mark.parametrize(
    ("found", "start"),
    [
        (scores_judged("better"), "The new model is better. On 12 "),
        (scores_judged("worse"), "The new model is worse."),
        (scores_judged("too few to tell"), "Too few to tell: no difference"),
        (scores_judged("too few to tell", 4), "Too few to tell: 4 "),
    ],
)
def test_the_verdict_comes_first(found: PairedScores, start: str) -> None:
    assert Outcome("target", found, None).sentence.startswith(start)


def test_where_the_old_model_has_met_all_nothing_is_compared() -> None:
    found = replace(scores_judged("too few to tell"), differences=[])
    sentence = Outcome("joint", found, None).sentence
    assert sentence.startswith("Too few to tell. ")
    assert "new ones" in sentence
    assert sentence.endswith("new to the old model.")


def test_a_regression_on_the_old_test_set_is_named() -> None:
    on_test = scores_judged("worse", how="the old store's 30 test recordings")
    target = Outcome("target", scores_judged("better"), on_test)
    assert target.verdict == "better"
    assert f"A regression: on {on_test.how}" in target.sentence
    assert "keep the old model" in target.sentence
    assert Outcome("joint", scores_judged("better"), on_test).verdict == "worse"
    assert (
        Outcome("joint", scores_judged("better"), on_test).content()["old_test"]["verdict"]
        == "worse"
    )
