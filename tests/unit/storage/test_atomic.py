import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from leakdet.errors import InputError
from leakdet.storage import atomic
from leakdet.storage.atomic import check_free, is_taken, publish, staged_folder, whole_file

BUILD = """
import os, socket, sys
from pathlib import Path
from leakdet.storage import atomic
from leakdet.storage.atomic import check_free, publish, staged_folder

out, host, how = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
os.getpid = lambda: 1  # as the first process of a container
socket.gethostname = lambda: host
renamed = Path.rename

def rename(path, target):
    if path.name == "store" and target == out and how == "killed between the renames":
        os._exit(9)
    return renamed(path, target)

Path.rename = rename
if how == "killed between the renames":
    atomic._exchanged = lambda *_: False  # as on a system that cannot
check_free(out, overwrite=True)
with staged_folder(out) as folder:
    (folder / "build.json").write_text("new")
    if how == "killed while building":
        os._exit(9)
    publish(folder, out)
"""


def build(out: Path, how: str = "to its end", host: str = "here") -> int:
    environment = {**os.environ, "PYTHONPATH": str(Path(atomic.__file__).parents[2])}
    command = [sys.executable, "-c", BUILD, str(out), host, how]
    return subprocess.run(command, env=environment, check=False).returncode


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def old_store(folder: Path) -> Path:
    store = folder / "store"
    store.mkdir()
    (store / "build.json").write_text("old")
    return store


def test_a_killed_build_is_cleared_up_after_by_one_with_the_same_process_number(tmp_path: Path):
    store = tmp_path / "store"
    assert build(store, "killed while building") == 9
    assert len(names(tmp_path)) == 1
    assert build(store) == 0
    assert names(tmp_path) == ["store"]
    assert (store / "build.json").read_text() == "new"


def test_a_build_that_runs_is_left_alone(tmp_path: Path):
    with staged_folder(tmp_path / "store") as folder:
        (folder / "train.h5").touch()
        check_free(tmp_path / "store", overwrite=False)
        with staged_folder(tmp_path / "store") as other:
            assert folder != other
        assert (folder / "train.h5").exists()
    assert names(tmp_path) == []


def test_what_another_machine_builds_is_left_alone(tmp_path: Path):
    """Whether it is dead cannot be told on every shared disk, and hours of work may lie there."""
    assert build(tmp_path / "store", "killed while building", host="there") == 9
    left = names(tmp_path)
    assert build(tmp_path / "store") == 0
    assert names(tmp_path) == [*left, "store"]
    assert build(tmp_path / "store", host="there") == 0
    assert names(tmp_path) == ["store"]


def test_the_old_store_comes_back_where_a_kill_struck_before_the_new_had_its_name(tmp_path: Path):
    store = old_store(tmp_path)
    assert build(store, "killed between the renames", host=socket.gethostname()) == 9
    assert not store.exists()
    with pytest.raises(InputError, match="holds a store already"):
        check_free(store, overwrite=False)
    assert (store / "build.json").read_text() == "old"
    assert names(tmp_path) == ["store"]


def test_the_old_store_comes_back_where_the_new_cannot_take_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store, renamed = old_store(tmp_path), Path.rename

    def rename(path: Path, target: Path) -> Path:
        if path.parent != tmp_path and path.name == "store":
            raise OSError("no")
        return renamed(path, target)

    monkeypatch.setattr(Path, "rename", rename)
    monkeypatch.setattr(atomic, "_exchanged", lambda *_: False)
    with pytest.raises(OSError, match="no"), staged_folder(store) as folder:
        publish(folder, store)
    assert (store / "build.json").read_text() == "old"
    assert names(tmp_path) == ["store"]


def test_brackets_in_the_name_of_a_store_are_no_pattern(tmp_path: Path):
    assert build(tmp_path / "store[1]", "killed while building") == 9
    assert build(tmp_path / "store[1]") == 0
    assert names(tmp_path) == ["store[1]"]


def test_what_is_no_store_is_never_replaced(tmp_path: Path):
    (tmp_path / "photos").mkdir()
    check_free(tmp_path / "photos", overwrite=False)  # empty
    (tmp_path / "photos" / "a.jpg").touch()
    with pytest.raises(InputError, match="exists and is not a store"):
        check_free(tmp_path / "photos", overwrite=True)


def test_a_place_is_taken_by_anything_but_an_empty_folder(tmp_path: Path):
    assert not is_taken(tmp_path / "new")
    assert not is_taken(tmp_path)
    (tmp_path / "file").touch()
    assert is_taken(tmp_path)
    assert is_taken(tmp_path / "file")


def test_a_file_takes_its_name_when_it_is_whole(tmp_path: Path):
    path = tmp_path / "rows.csv"
    path.write_text("old")
    with whole_file(path) as partial:
        partial.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert names(tmp_path) == ["rows.csv"]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path):
    path = tmp_path / "rows.csv"
    path.write_text("old")

    def write() -> None:
        with whole_file(path) as partial:
            partial.write_text("half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["rows.csv"]


def test_the_bytes_are_on_the_disk_before_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    events: list[str] = []
    replace = Path.replace
    monkeypatch.setattr(os, "fsync", lambda handle: events.append("fsync"))

    def renamed(path: Path, target: Path) -> Path:
        events.append("rename")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", renamed)
    with whole_file(tmp_path / "a") as partial:
        partial.touch()
    assert events == ["fsync", "rename", "fsync"]


def test_a_store_that_is_replaced_is_there_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = old_store(tmp_path)
    with staged_folder(store) as folder:
        (folder / "build.json").write_text("new")
        if not atomic._exchanged(folder, store):
            pytest.skip("this file system cannot exchange two folders")
        assert (folder / "build.json").read_text() == "old"
        (folder / "build.json").write_text("newest")
        monkeypatch.setattr(Path, "rename", None)  # one step alone
        publish(folder, store)
        monkeypatch.undo()
        assert (store / "build.json").read_text() == "newest"
    assert names(tmp_path) == ["store"]


def test_where_folders_cannot_be_exchanged_they_are_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic, "_exchanged", lambda *_: False)
    store = old_store(tmp_path)
    with staged_folder(store) as folder:
        (folder / "build.json").write_text("new")
        publish(folder, store)
    assert (store / "build.json").read_text() == "new"
    assert names(tmp_path) == ["store"]
