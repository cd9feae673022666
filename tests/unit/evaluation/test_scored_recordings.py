import csv
from pathlib import Path

import numpy as np
import pytest

from leakdet.detection.decision import DecisionRule
from leakdet.errors import InputError
from leakdet.evaluation.metrics import binary_metrics
from leakdet.evaluation.metrics_json import tables_of, write_metrics
from leakdet.evaluation.model_comparison import compare
from leakdet.evaluation.scored_recordings import (
    TIMELINE_POINTS,
    ScoredRecordings,
    csv_rows,
    write_csv,
)


def scored(n=60, windows=5, seed=0, gap=0.25, threshold=0.5, name="test"):
    rng = np.random.default_rng(seed)
    is_leak = np.arange(n) % 2 == 0
    prob = np.clip(rng.normal(0.4 + gap * np.repeat(is_leak, windows), 0.15), 0, 1).astype(
        np.float32
    )
    offsets = np.arange(n + 1) * windows
    return ScoredRecordings(
        name=name,
        recording_id=np.array([f"r{row}" for row in range(n)]),
        label=np.where(is_leak, "LEAK", "NORMAL"),
        is_leak=is_leak,
        score=DecisionRule().score(prob, offsets),
        threshold=np.broadcast_to(threshold, n).astype(np.float64),
        window_prob=prob,
        recording_offsets=offsets,
        groups={"site": np.array([f"s{row % 6}" for row in range(n)])},
    )


def read_rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def test_recordings_csv_says_what_was_decided_and_why(tmp_path: Path):
    found = scored()
    write_csv(tmp_path / "recordings.csv", {"test": found})
    rows = read_rows(tmp_path / "recordings.csv")
    assert [row["recording_id"] for row in rows] == found.recording_id.tolist()
    for index, row in enumerate(rows):
        prob = found.window_prob[5 * index : 5 * index + 5]
        assert (row["decision"] == "leak") == (found.score[index] >= 0.5)
        assert int(row["leak_windows"]) == (prob >= 0.5).sum()
        assert [float(value) for value in row["timeline"].split()] == pytest.approx(
            prob.tolist(), abs=5e-4
        )
        assert row["site"] == f"s{index % 6}"


def test_a_long_recording_has_the_highest_of_each_stretch():
    found = scored(n=1, windows=1234)
    timeline = found.timeline(0)
    assert len(timeline) == TIMELINE_POINTS
    assert timeline.max() == found.window_prob.max()
    assert timeline.min() > np.median(found.window_prob)


def test_splits_of_other_columns_share_one_file(tmp_path: Path):
    other = scored(n=4, name="val")
    other.groups = {"pipe": np.array(["1", "2", "3", "4"])}
    write_csv(tmp_path / "r.csv", [other, scored(n=4)])
    rows = read_rows(tmp_path / "r.csv")
    assert [(row["split"], row["pipe"], row["site"]) for row in rows[3:5]] == [
        ("val", "4", ""),
        ("test", "", "s0"),
    ]


def test_several_thresholds_give_the_counts_of_the_verdicts_and_the_ranking_of_the_scores():
    threshold = np.where(np.arange(60) < 30, 0.45, 0.6)
    found = scored(threshold=threshold)
    table = tables_of(found, 50)["recording"]
    assert table["tp"] == (found.decision & found.is_leak).sum()
    assert table["fn"] == (~found.decision & found.is_leak).sum()
    assert table["auroc"] == binary_metrics(found.score, found.is_leak, 0.5)["auroc"]
    assert table["recall"] == table["tp"] / 30
    assert table["intervals"]["recall"][0] <= table["recall"] <= table["intervals"]["recall"][1]


def test_whole_groups_are_resampled_where_there_are_any():
    found = scored(n=60)
    found.score[found.groups["site"] == "s0"] = 0.1  # one site is missed as a whole
    alone, grouped = (tables_of(found, 400, by)["recording"]["intervals"] for by in ((), ("site",)))
    assert (alone["unit"], grouped["unit"]) == ("recording", "site")
    assert grouped["recall"][1] - grouped["recall"][0] > alone["recall"][1] - alone["recall"][0]
    assert tables_of(found, 50, ("nowhere",))["recording"]["intervals"]["unit"] == "recording"


def test_perfect_results_of_few_recordings_have_wide_intervals():
    found = scored(n=12, gap=0.0)
    found.score = np.where(found.is_leak, 0.9, 0.1)
    table = tables_of(found, 100)["recording"]
    for key in ("recall", "specificity", "auroc", "f1"):
        low, high = table["intervals"][key]
        assert (high, table[key]) == (1.0, 1.0)
        assert low < 0.8, key
    assert table["intervals"]["fpr"][1] == pytest.approx(0.39, abs=0.01)
    assert "Wilson" in table["intervals"]["note"]


def test_metrics_are_strict_json(tmp_path: Path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_metrics(tmp_path / "metrics.json", {"f1": float("nan")})


def test_a_better_model_is_named_and_an_equal_one_is_not():
    weak, strong = scored(n=200, gap=0.05), scored(n=200, gap=0.5)
    found = compare(weak, strong, ("weak", "strong"), replicates=200)
    accuracy = found["differences"][0]
    assert accuracy["difference"] == pytest.approx(weak.wrong.mean() - strong.wrong.mean())
    assert accuracy["interval"][0] > 0
    assert found["mcnemar"]["only_b"] == (weak.wrong & ~strong.wrong).sum()
    assert found["sentence"].startswith("B is better, beyond chance")
    assert compare(strong, weak, ("s", "w"), replicates=200)["sentence"].startswith("A is better")
    assert compare(weak, weak, ("w", "w"), replicates=50)["sentence"].startswith("No difference")


def test_only_the_same_recordings_are_compared():
    with pytest.raises(InputError, match="same recordings"):
        compare(scored(n=10), scored(n=12), ("a", "b"))


def test_rows_of_no_recordings_are_none():
    empty = scored(n=0)
    assert list(csv_rows(empty)) == []
