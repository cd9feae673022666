import csv
from pathlib import Path

import numpy as np
import pytest

from leakdet.evaluation.scored_recordings import (
    TIMELINE_POINTS,
    csv_rows,
    write_recordings,
)


def read_rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def test_recordings_csv_says_what_was_decided_and_why(scored, tmp_path: Path):
    recordings = scored()
    write_recordings(tmp_path / "recordings.csv", {"test": recordings})
    rows = read_rows(tmp_path / "recordings.csv")
    assert [row["recording_id"] for row in rows] == recordings.recording_id.tolist()
    for index, row in enumerate(rows):
        prob = recordings.window_prob[5 * index : 5 * index + 5]
        assert (row["decision"] == "leak") == (recordings.score[index] >= 0.5)
        assert int(row["leak_windows"]) == (prob >= 0.5).sum()
        assert [float(value) for value in row["timeline"].split()] == pytest.approx(
            prob.tolist(), abs=5e-4
        )
        assert row["site"] == f"s{index % 6}"


def test_recordings_are_picked_with_their_windows_and_groups(scored):
    recordings = scored()
    rows = np.array([7, 2])
    picked = recordings.take(rows)
    assert picked.recording_id.tolist() == recordings.recording_id[rows].tolist()
    assert (picked.wrong == recordings.wrong[rows]).all()
    assert picked.groups["site"].tolist() == ["s1", "s2"]
    for new, old in enumerate(rows.tolist()):
        assert (picked.timeline(new) == recordings.timeline(old)).all()


def test_a_long_recording_has_the_highest_of_each_stretch(scored):
    recordings = scored(n=1, windows=1234)
    timeline = recordings.timeline(0)
    assert len(timeline) == TIMELINE_POINTS
    assert timeline.max() == recordings.window_prob.max()
    assert timeline.min() > np.median(recordings.window_prob)


def test_splits_of_other_columns_share_one_file(scored, tmp_path: Path):
    other = scored(n=4, name="val")
    other.groups = {"pipe": np.array(["1", "2", "3", "4"])}
    write_recordings(tmp_path / "r.csv", {"val": other, "test": scored(n=4)})
    rows = read_rows(tmp_path / "r.csv")
    assert [(row["split"], row["pipe"], row["site"]) for row in rows[3:5]] == [
        ("val", "4", ""),
        ("test", "", "s0"),
    ]


def test_rows_of_no_recordings_are_none(scored):
    empty = scored(n=0)
    assert list(csv_rows(empty)) == []


def test_groups_of_several_columns_are_drawn_together_where_there_are_two_at_least(scored):
    recordings = scored(n=4)
    recordings.groups = {
        "site": np.array([*"aabb"]),
        "day": np.array([*"1211"]),
        "pump": np.full(4, "p"),
    }
    assert recordings.resampling_units(["site", "day"]).tolist() == [
        "a / 1",
        "a / 2",
        "b / 1",
        "b / 1",
    ]
    for columns in ([], ["pump"], ["site", "street"]):
        assert recordings.resampling_units(columns) is None
