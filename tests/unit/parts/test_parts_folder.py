"""A folder of parts: held by one process, begun with one model, its parts whole or scored again."""

import errno
import json
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from leakdet.errors import InputError
from leakdet.parts.part_rows import read_rows
from leakdet.parts.parts_folder import PartsFolder, parts_folder
from leakdet.parts.recordings_db import Listed
from leakdet.scoring.listed_recording import ListedRecording
from leakdet.storage.file_lock import locked

SETTINGS = {"threshold": None, "policy": None, "unfamiliar": None, "format": "csv"}
FACTS = {
    "batch_files": 2,
    "columns": ["path", "decision", "reason", "flags"],
    "created_by": "leakdet 0.0.1",
    "model": {"hash": "0123456789ab", "path": "/models/a.safetensors"},
    "settings": {**SETTINGS, "device": "cpu"},
}
ROW = {"decision": "leak", "reason": "", "flags": "clipped"}


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """A folder of two parts, three files."""
    path = tmp_path / "parts"
    with (
        mock.patch("leakdet.parts.parts_folder.BATCH_FILES", 2),
        parts_folder(path) as folder,
    ):
        first, files, _ = folder.db.add(ListedRecording(Path(f"/x/{name}")) for name in "abc")
        folder.db.commit(Listed(first, files, "now", ["/x"], [], [], True))
        folder.facts = dict(FACTS)
        folder.write_facts()
        publish(folder)
        folder.write_facts(files=3)
    return path


def publish(folder: PartsFolder) -> list[int]:
    """Publish what has no part; gives the numbers."""
    batches = list(folder.db.batches())
    for batch in batches:
        folder.publish(batch.number, [{"path": path, **ROW} for path in batch.paths])
    return [batch.number for batch in batches]


def test_parts_are_published_whole_and_recorded(begun: Path) -> None:
    assert {path.name for path in begun.iterdir()} == {
        "lock",
        "part-00000.csv",
        "part-00001.csv",
        "parts.json",
        "recordings.sqlite",
    }
    assert read_rows(begun)["path"].tolist() == ["/x/a", "/x/b", "/x/c"]
    with parts_folder(begun) as folder:
        assert folder.is_finished
        assert (folder.facts, folder.db.batch_files) == (FACTS, 2)
        folder.repair()
        assert publish(folder) == []
        assert [counts["decisions"]["leak"] for counts in folder.db.counts()] == [2, 1]


@pytest.mark.parametrize(
    ("damage", "kept"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-9]), True),
        (lambda path: path.write_text("\n".join(path.read_text().splitlines()[:2])), True),
        (lambda path: path.write_text(path.read_text().replace("leak", "no_leak")), True),
        (lambda path: path.write_bytes(b""), True),
        (lambda path: path.unlink(), False),
    ],
)
def test_a_part_that_is_not_as_it_was_written_is_scored_again(
    begun: Path, damage: Any, kept: bool, messages: pytest.LogCaptureFixture
) -> None:
    part = begun / "part-00000.csv"
    whole = part.read_bytes()
    damage(part)
    left = part.read_bytes() if kept else None
    with parts_folder(begun) as folder:
        folder.repair()
        assert publish(folder) == [0]
    assert part.read_bytes() == whole
    aside = begun / "part-00000.csv.changed"
    assert (aside.read_bytes() if kept else None) == left
    assert ("damaged or edited" if kept else "removed") in messages.text
    assert len(read_rows(begun)["path"]) == 3  # what was set aside is no part


def test_a_part_that_nobody_recorded_is_no_part(begun: Path) -> None:
    (begun / "part-00009.csv").write_bytes((begun / "part-00001.csv").read_bytes())
    (begun / ".part-00001.csv.4711").write_text("of a killed process")
    with parts_folder(begun) as folder:
        folder.repair()
        assert publish(folder) == []
    assert len(read_rows(begun)["path"]) == 3
    assert (begun / "part-00009.csv.changed").exists()
    assert not (begun / ".part-00001.csv.4711").exists()


def test_a_kill_between_record_and_name_costs_that_batch_alone(begun: Path) -> None:
    (begun / "part-00001.csv").unlink()  # recorded, and never renamed
    with parts_folder(begun) as folder:
        folder.repair()
        assert publish(folder) == [1]


def test_a_full_disk_leaves_no_part_and_no_temporary_file(begun: Path) -> None:
    (begun / "part-00001.csv").unlink()
    full = OSError(errno.ENOSPC, "No space left on device")
    with parts_folder(begun) as folder:
        folder.repair()
        with (
            mock.patch.object(Path, "write_bytes", side_effect=full),
            pytest.raises(OSError, match="left") as raised,
        ):
            publish(folder)
    assert raised.value.filename == str(begun / "part-00001.csv")
    assert sorted(path.name for path in begun.glob("*part-*")) == ["part-00000.csv"]
    with parts_folder(begun) as folder:
        folder.repair()
        assert publish(folder) == [1]


def test_the_same_model_and_settings_go_on(begun: Path, messages: pytest.LogCaptureFixture) -> None:
    with parts_folder(begun) as folder:
        folder.check_same("0123456789ab", SETTINGS)
        folder.check_columns(["path", "decision", "reason", "flags"])
    assert "begun by leakdet 0.0.1" in messages.text


def test_what_differs_is_named(begun: Path) -> None:
    with parts_folder(begun) as folder:
        with pytest.raises(InputError, match=r"the model was 0123456789ab \(/models/a") as raised:
            folder.check_same("ba9876543210", {**SETTINGS, "threshold": 0.5, "format": "parquet"})
        assert "--threshold was not given, and is 0.5 now" in str(raised.value)
        assert "--format was csv, and is parquet now" in str(raised.value)
        assert "--policy" not in str(raised.value)
        with pytest.raises(InputError, match=r"other columns.*mains_hum_db"):
            folder.check_columns([*FACTS["columns"], "mains_hum_db"])


def test_two_processes_do_not_share_a_folder(begun: Path) -> None:
    with (
        locked(begun / "lock"),
        pytest.raises(InputError, match="another process writes"),
        parts_folder(begun),
    ):
        pass


def refused(path: Path, words: str) -> None:
    with pytest.raises(InputError, match=words) as raised, parts_folder(path):
        pass
    assert str(path) in str(raised.value)


def test_a_folder_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    refused(tmp_path, "holds other files")
    refused(tmp_path / "notes.txt", "is a file")
    (tmp_path / "parts.json").write_text("[]")
    refused(tmp_path, "Name another folder")
    (tmp_path / "parts.json").write_text('{"kind": "another"}')
    refused(tmp_path, "not the description")
    assert {path.name for path in tmp_path.iterdir()} == {"notes.txt", "parts.json", "lock"}


def test_a_damaged_description_or_list_is_named(begun: Path) -> None:
    text = (begun / "parts.json").read_text()
    (begun / "parts.json").write_text(text.replace("/models/a", "/models/b"))
    refused(begun, "parts.json")
    (begun / "parts.json").write_text(text)
    (begun / "recordings.sqlite").rename(begun / "gone")
    refused(begun, "the list of recordings is gone")
    assert json.loads(text)["outcome"] == {"files": 3}


def test_of_a_folder_that_was_not_begun_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no audio"), parts_folder(tmp_path / "parts"):
        raise InputError("no audio")
    (tmp_path / "there").mkdir()
    with parts_folder(tmp_path / "there"):
        pass
    assert [path.name for path in tmp_path.rglob("*")] == ["there"]


def test_a_start_that_came_no_further_than_its_list_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "recordings.sqlite").write_text("half")
    (tmp_path / "recordings.sqlite-journal").write_text("half")
    (tmp_path / "lock").touch()
    with parts_folder(tmp_path) as folder:
        assert folder.db.files == 0
