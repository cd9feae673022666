"""The recordings of a work list to hear and confirm, and their table as learn and build read it."""

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from leakdet._remote import RemoteFile
from leakdet.building.manifest import from_manifest
from leakdet.scoring.audio_detector import load_detector
from leakdet.sites.worklist_row import Recording, WorklistRow
from leakdet.storage.csv_file import write_csv
from leakdet.worklist_review import (
    choose_recordings,
    confirm_rows,
    found_file,
    gone_sentence,
    review_page,
)

LAST = datetime.fromisoformat("2026-11-28T03:00")


def recording(path: str, hours: float, prob: float | None) -> Recording:
    return Recording(path, LAST - timedelta(hours=hours), prob, "leak", -55.5)


def site(name: str, *recordings: Recording, **columns: str) -> WorklistRow:
    return WorklistRow(
        name, "new", "it began", 3, 2, None, 0.7, None, None, None, None, (0.7,), (), None, None,
        None, None, None, columns, recordings,
    )  # fmt: skip


def test_the_most_leak_like_recording_of_the_last_night_is_heard() -> None:
    row = site(
        "A",
        recording("newest.wav", 0, 0.6),
        recording("highest.wav", 2, 0.8),
        recording("unread.wav", 3, None),
        recording("night before.wav", 24, 0.9),
    )
    assert [one.recording.path for one in choose_recordings([row], 5)] == ["highest.wav"]


def test_sites_without_sound_are_passed_over() -> None:
    rows = [
        site("A"),
        site("B", recording("b.wav", 0, None)),
        site("C", recording("c.wav", 0, 0.1)),
    ]
    shown = choose_recordings([*rows, *rows], 1)
    assert [(one.rank, one.row.site) for one in shown] == [(3, "C")]


def test_an_undated_recording_is_a_night_of_its_own() -> None:
    undated = Recording("a.wav", None, 0.2, "no_leak", None)
    assert choose_recordings([site("A", undated, recording("b.wav", 0, 0.9))], 1)[0].recording is (
        undated
    )


def test_names_are_looked_for_where_predict_may_have_run(tmp_path: Path, monkeypatch) -> None:
    rows = tmp_path / "work" / "parts"
    rows.mkdir(parents=True)
    (tmp_path / "work" / "a.wav").touch()
    monkeypatch.chdir(tmp_path)
    assert found_file("a.wav", [rows]) == tmp_path / "work" / "a.wav"
    (tmp_path / "a.wav").touch()
    assert found_file("a.wav", [rows]) == tmp_path / "a.wav"
    assert found_file("gone.wav", [rows]) == tmp_path / "gone.wav"
    assert found_file("/else/b.wav", [rows]) == Path("/else/b.wav")
    assert found_file("s3://bucket/b.wav", [rows]) == RemoteFile("s3://bucket/b.wav")


def test_the_table_is_one_that_build_reads(write_sound, tmp_path: Path) -> None:
    file = write_sound("a.wav")
    shown = choose_recordings(
        [site("S 1", recording("a.wav", 0, 0.75), pipe="PE", label="leak", split="test")], 9
    )
    (row,) = confirm_rows(shown, [file], "abc")
    assert row == {
        "path": str(file),
        "site": "S 1",
        "recorded_at": "2026-11-28T03:00:00",
        "pipe": "PE",
        "label": "",
        "why_suggested": "rank 1, new: it began",
        "leak_prob": "0.75",
        "decision": "leak",
        "quiet_level_dbfs": "-55.5",
        "model": "abc",
    }
    write_csv(tmp_path / "list.confirm.csv", [{**row, "label": "dry_hole"}])
    (read,) = from_manifest(tmp_path / "list.confirm.csv").recordings
    assert (read.path, read.label) == (file, "dry_hole")
    assert read.groups == {"site": "S 1", "recorded_at": "2026-11-28T03:00:00", "pipe": "PE"}


def test_a_channel_is_heard_and_confirmed_alone(example_files, write_sound, tmp_path: Path) -> None:
    loud = np.random.default_rng(0).normal(0, 0.1, (32000, 2))
    file = write_sound("both.wav", samples=loud * [1.0, 0.0])
    heard = Recording("both.wav", LAST, 0.5, "leak", None, channel=2)
    shown = choose_recordings([site("B7 channel 2", heard)], 1)
    rows = confirm_rows(shown, [file], "abc")
    assert (rows[0]["site"], rows[0]["channel"]) == ("B7", "2")
    write_csv(tmp_path / "list.confirm.csv", [{**rows[0], "label": "leak"}])
    (read,) = from_manifest(tmp_path / "list.confirm.csv", by_channel=True).recordings
    assert (read.channel, read.groups["site"]) == (2, "B7")
    detector = load_detector(example_files.model, device="cpu")
    (row,) = review_page(shown, rows, [file], detector, 0.5, "list.confirm.csv").rows
    assert len(set(row.window_prob.tolist())) == 1  # every window of silence sounds alike
    assert row.facts["channel"] == "2"


def test_files_that_are_gone_are_counted_and_their_rows_say_so(
    example_files, tmp_path: Path, messages
) -> None:
    files = [example_files.recording, tmp_path / "gone.wav"]
    rows = [site(name, recording(f"{name}.wav", 0, 0.5)) for name in "AB"]
    shown = choose_recordings(rows, 2)
    assert "1 of 2 recordings to hear are no longer there" in gone_sentence(files)
    assert gone_sentence(files[:1]) == ""
    detector = load_detector(example_files.model, device="cpu")
    values = confirm_rows(shown, files, "abc")
    heard, gone = review_page(shown, values, files, detector, 0.5, "list.confirm.csv").rows
    assert heard.media.audio is not None
    assert len(heard.window_prob) > 0
    assert (gone.media.audio, gone.media.mel) == (None, None)
    assert gone.facts["file"].endswith("gone.wav (gone)")
    assert not messages.text


def test_without_a_model_rows_are_listed_without_sound(tmp_path: Path) -> None:
    shown = choose_recordings([site("A", recording("a.wav", 0, 0.5))], 2)
    page = review_page(shown, confirm_rows(shown, [tmp_path], "m"), [tmp_path], None, 0.5, "c.csv")
    assert page.rows[0].media.mel is None
    assert page.columns[:3] == ["path", "site", "recorded_at"]


def test_no_recordings_make_an_empty_page() -> None:
    assert review_page([], [], [], None, 0.5, "c.csv").rows == []


@pytest.mark.parametrize("most", [0, 1, 3])
def test_there_are_at_most_so_many(most: int) -> None:
    rows = [site(name, recording("a.wav", 0, 0.5)) for name in "ABCD"]
    assert len(choose_recordings(rows, most)) == most
