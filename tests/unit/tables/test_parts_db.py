import errno
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from leakdet.core.errors import InputError
from leakdet.core.locations import RemoteFile
from leakdet.tables.parts_db import FileBatch, ListingRecord, RecordingsDb
from leakdet.tables.schema import InputRecording


def test_a_batch_says_which_files_it_holds() -> None:
    recordings = tuple(InputRecording(Path(f"/x/{name}.wav")) for name in "ab")
    batch = FileBatch(3, recordings, ("a.wav", "b.wav"))
    assert len(batch) == 2
    assert str(batch) == "batch 3 (a.wav to b.wav)"
    assert str(batch.only(1)) == "b.wav"
    assert batch.only(1) == FileBatch(3, recordings[1:], ("b.wav",))
    assert batch.only(0, "too loud").recordings[0].error == "too loud"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[RecordingsDb]:
    with closing(RecordingsDb(tmp_path / "list.sqlite", batch_files=3)) as opened:
        yield opened


def add(db: RecordingsDb, *names: str | InputRecording) -> tuple[int, int]:
    recordings = (
        name if isinstance(name, InputRecording) else InputRecording(Path(name)) for name in names
    )
    first, files, repeated = db.add(recordings)
    assert repeated == len(names) - files
    db.commit(ListingRecord(first, files, "2026-11-28", ["/x"], ["site"], ["left out"], True))
    return first, files


def batches(db: RecordingsDb) -> dict[int, tuple[str, ...]]:
    return {batch.number: batch.paths for batch in db.batches()}


def test_files_are_sorted_and_each_is_there_once(db: RecordingsDb) -> None:
    assert add(db, "/x/c", "/x/a", "/x/d", "/x/b", "/x/a") == (0, 4)
    assert batches(db) == {0: ("/x/a", "/x/b", "/x/c"), 1: ("/x/d",)}


def test_a_later_listing_begins_a_new_batch_and_repeats_no_file(db: RecordingsDb) -> None:
    add(db, "/x/a", "/x/b", "/x/c", "/x/d")
    assert add(db, "/x/d", "/x/0") == (6, 1)
    assert batches(db)[2] == ("/x/0",)
    assert add(db, "/x/d", "/x/0") == (9, 0)  # nothing new: no listing
    assert [(one.first, one.files) for one in db.listings] == [(0, 4), (6, 1)]
    assert db.files == 5
    assert db.listings[0] == ListingRecord(0, 4, "2026-11-28", ["/x"], ["site"], ["left out"], True)


def test_seconds_of_one_file_are_each_there_once(db: RecordingsDb) -> None:
    recordings = [
        InputRecording(Path("/x/a"), {"start_s": start, "end_s": "2.0"}) for start in ("0.0", "1.0")
    ]
    assert add(db, *recordings, recordings[0], "/x/a") == (0, 3)
    (batch,) = db.batches()
    assert batch.paths == ("/x/a",) * 3
    assert [recording.span for recording in batch.recordings] == [
        None,
        *(recording.span for recording in recordings),
    ]


def test_what_a_list_tells_of_a_file_comes_back(db: RecordingsDb) -> None:
    told = InputRecording(Path("/x/\udcff.wav"), {"site": "Zürich 1"}, "no such file")
    add(db, told)
    (batch,) = db.batches()
    assert batch.recordings == (told,)
    assert batch.paths == ("/x/\udcff.wav",)


def test_the_first_list_that_tells_of_a_file_counts_until_it_is_numbered(db: RecordingsDb) -> None:
    file, other = Path("/x/a"), Path("/x/b")
    told = [InputRecording(file, {"site": site}) for site in ("", "Zürich", "Bern")]
    add(db, *told, InputRecording(other, {"site": ""}))
    add(db, InputRecording(other, {"site": "Bern"}), InputRecording(Path("/x/c"), {"site": "s"}))
    batch, _ = db.batches()
    assert [dict(recording.columns) for recording in batch.recordings] == [{"site": "Zürich"}, {}]


def test_a_file_is_the_same_from_whatever_folder_it_is_named(
    db: RecordingsDb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    add(db, "a.wav")
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    assert add(db, "../a.wav", str(tmp_path / "a.wav"))[1] == 0
    (batch,) = db.batches()
    assert batch.paths == ("a.wav",)  # the row has it as it was named
    assert batch.recordings[0].source == tmp_path / "a.wav"


def test_a_url_stays_what_it_is(db: RecordingsDb) -> None:
    add(db, InputRecording(RemoteFile("memory://night/a.wav")))
    (batch,) = db.batches()
    assert batch.recordings[0].source == RemoteFile("memory://night/a.wav")
    assert batch.paths == ("memory://night/a.wav",)


def test_links_to_one_sound_are_several_files(db: RecordingsDb, tmp_path: Path) -> None:
    (tmp_path / "a.wav").touch()
    (tmp_path / "b.wav").symlink_to(tmp_path / "a.wav")
    assert add(db, str(tmp_path / "a.wav"), str(tmp_path / "b.wav"))[1] == 2


def test_what_has_a_part_is_not_asked_for_again(db: RecordingsDb) -> None:
    add(db, "/x/a", "/x/b", "/x/c", "/x/d")
    add(db, "/x/e")
    assert db.scored() == 0
    db.record(0, "abc", {"files": 3})
    db.record(1, "def", {"files": 1})
    assert (db.scored(), list(batches(db))) == (4, [2])
    assert db.hashes() == {0: "abc", 1: "def"}
    assert list(db.counts()) == [{"files": 3}, {"files": 1}]
    assert list(db.counts(first=3)) == [{"files": 1}]
    db.forget(0)
    assert (db.scored(), list(batches(db))) == (1, [0, 2])


def test_a_listing_that_failed_leaves_nothing(db: RecordingsDb, tmp_path: Path) -> None:
    add(db, "/x/a")

    def failing() -> Iterator[InputRecording]:
        yield InputRecording(Path("/x/b"))
        raise InputError("unreadable")

    with pytest.raises(InputError, match="unreadable"):
        db.add(failing())
    db.rollback()
    assert batches(db) == {0: ("/x/a",)}
    db.close()
    with closing(RecordingsDb(tmp_path / "list.sqlite", batch_files=3)) as again:
        assert batches(again) == {0: ("/x/a",)}


def test_a_full_disk_is_a_system_error_with_its_place(db: RecordingsDb, tmp_path: Path) -> None:
    db._db.execute("PRAGMA max_page_count = 8")
    with pytest.raises(OSError, match=r"list\.sqlite") as raised:
        add(db, *(f"/x/{number:090}" for number in range(1000)))
    assert raised.value.errno == errno.ENOSPC
    db.rollback()
    assert db.files == 0


@pytest.mark.parametrize("content", [b"no list at all, but long enough" * 9, b"SQLite format 3\0"])
def test_a_damaged_list_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "list.sqlite").write_bytes(content)
    with pytest.raises(InputError, match=r"list\.sqlite: .*damaged"):
        RecordingsDb(tmp_path / "list.sqlite")


def test_a_list_that_another_program_holds_is_named(db: RecordingsDb, tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "list.sqlite")
    db._db.execute("PRAGMA busy_timeout = 0")
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(InputError, match="Close what"):
        add(db, "/x/a")
    other.close()
