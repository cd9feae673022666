import contextlib
import errno
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
import time
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakdet.core import files
from leakdet.core.errors import InputError, SettingsError
from leakdet.core.files import (
    KEY,
    UNSEALED,
    as_input_error,
    check_free,
    claimed,
    default_cache,
    fresh_folder,
    is_sealed,
    is_taken,
    locked,
    megabytes,
    publish,
    read_json,
    require_folder,
    require_readable,
    require_space,
    require_writable,
    sealed,
    staged_folder,
    store_is_sealed,
    whole_file,
    write_json,
)
from leakdet.storage.hdf5 import seal_h5
from leakdet.storage.opening import open_split
from leakdet.tables import write
from leakdet.tables.write import output_file

BUILD = """
import os, socket, sys
from pathlib import Path
from leakdet.core import files
from leakdet.core.files import check_free, publish, staged_folder

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
    files._exchanged = lambda *_: False  # as on a system that cannot
check_free(out, overwrite=True)
with staged_folder(out) as folder:
    (folder / "build.json").write_text("new")
    if how == "killed while building":
        os._exit(9)
    publish(folder, out)
"""


def build(out: Path, how: str = "to its end", host: str = "here") -> int:
    environment = {**os.environ, "PYTHONPATH": str(Path(files.__file__).parents[2])}
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
    monkeypatch.setattr(files, "_exchanged", lambda *_: False)
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
    with pytest.raises(InputError, match=r"photos.* not a store"):
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
        if not files._exchanged(folder, store):
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
    monkeypatch.setattr(files, "_exchanged", lambda *_: False)
    store = old_store(tmp_path)
    with staged_folder(store) as folder:
        (folder / "build.json").write_text("new")
        publish(folder, store)
    assert (store / "build.json").read_text() == "new"
    assert names(tmp_path) == ["store"]


def test_a_lock_shuts_others_out_until_it_is_left(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "lock"
    with locked(path), path.open("a") as other, pytest.raises(BlockingIOError):
        flock(other, LOCK_EX | LOCK_NB)
    with path.open("a") as other:
        flock(other, LOCK_EX | LOCK_NB)


def test_who_does_not_wait_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locked(path), pytest.raises(BlockingIOError), locked(path, wait=False):
        pass
    with locked(path, wait=False), pytest.raises(BlockingIOError), locked(path, wait=False):
        pass


def test_more_than_is_free_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=3_000_000_000))
    told = require_space(tmp_path / "not" / "yet", 1_500_000, "out=store")
    assert "1.5 MB" in told
    assert "3.0 GB" in told
    with pytest.raises(InputError, match=r"^out=store: .*4\.0 GB .* 3\.0 GB .*free some"):
        require_space(tmp_path, 4_000_000_000, "out=store")


def test_a_folder_of_results_is_made_and_replaces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_folder(tmp_path / "not" / "yet", "--out x")
    require_folder(tmp_path, "--out x")
    (tmp_path / "file").touch()
    for name, kind in (("build.json", "store"), ("model.safetensors", "training")):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / name).touch()
        with pytest.raises(InputError, match=rf"^--out x: .*folder of a {kind}; name"):
            require_folder(tmp_path / kind, "--out x")
    with pytest.raises(InputError, match="file is a file"):
        require_folder(tmp_path / "file" / "below", "--out x")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InputError, match="may not be written"):
        require_folder(tmp_path / "not" / "yet", "--out x")


def test_results_replace_those_of_an_evaluation_only(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text('{"model": "m.safetensors", "store": "s"}')
    require_folder(tmp_path, "--out x")
    for name, text in (
        ("metrics.json", '{"model": "m.safetensors", "settings": {}}'),
        ("metrics.json", "[]"),
        ("recordings.csv", "path,label\n"),
    ):
        for folder in (tmp_path / text[:9], tmp_path / text[:9] / "b"):
            folder.mkdir(exist_ok=True)
            (folder / name).write_text(text)
            with pytest.raises(InputError, match=rf"{name} would be replaced.*evaluate"):
                require_folder(tmp_path / text[:9], "--out x")
            (folder / name).unlink()


def test_sizes_are_in_megabytes_until_they_are_large() -> None:
    assert [megabytes(count) for count in (0, 123_456, 2_500_000_000)] == [
        "0.0 MB",
        "0.1 MB",
        "2.5 GB",
    ]


def test_the_default_cache_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "leakdet"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", "/home/someone")
    assert default_cache() == Path("/home/someone/.cache/leakdet")


def test_a_folder_is_made_or_the_setting_is_named(tmp_path: Path) -> None:
    require_writable(tmp_path / "a/b")
    assert (tmp_path / "a/b").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"file: no store .*data\.cache="):
        require_writable(tmp_path / "file")


def test_a_file_that_can_be_read(tmp_path: Path):
    (tmp_path / "a").touch()
    require_readable(tmp_path / "a", "model file")


def test_what_is_missing_or_refused_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(InputError, match=r"a: .*no such model file"):
        require_readable(tmp_path / "a", "model file")
    with pytest.raises(InputError, match=r"checkpoint .*\(Is a directory\)"):
        require_readable(tmp_path, "checkpoint")
    with pytest.raises(InputError, match=r"cannot be read \(embedded null"):
        require_readable(tmp_path / "a\0", "checkpoint")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InputError, match=r"cannot be read \(Permission denied\)"):
        require_readable(tmp_path / "a", "model file")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KeyError("f1"), r"it lacks 'f1'"),
        (ValueError("no number\nin it"), "no number"),
        (TypeError(), r"TypeError\(\)"),
        (PermissionError(13, "Permission denied"), "Permission denied"),
        (UnicodeDecodeError("utf-8", b"\xff" * 999, 0, 1, "invalid"), "'utf-8' codec can't .{,60}"),
    ],
)
def test_what_is_wrong_with_its_content_is_said(tmp_path: Path, error: Exception, reason: str):
    message = rf"a\.csv: not a history \({reason}\)\. Remove it\.$"
    with (
        pytest.raises(InputError, match=message),
        as_input_error(tmp_path / "a.csv", "a history", "Remove it."),
    ):
        raise error


def test_a_sentence_stays_as_it_is(tmp_path: Path):
    with pytest.raises(InputError, match=r"^said$"), as_input_error(tmp_path, "a history"):
        raise InputError("said")


REMEDY = "Build it."


@pytest.fixture
def path(write_store: Any, planted: Any) -> Path:
    return write_store(train=[planted("leak", 1), planted("other", 2)]) / "train.h5"


def test_every_byte_of_some_content_is_covered():
    content = sealed(json.dumps({"a": 1, KEY: UNSEALED, "b": [2, 3]}).encode())
    assert is_sealed(Path("m"), content, REMEDY)
    digits = content.index(KEY.encode()) + len(KEY) + 4
    for at in range(len(content)):
        changed = bytearray(content)
        changed[at] ^= 1
        if not digits - len(KEY) - 5 <= at < digits + 33:  # else it may be no seal any more
            with pytest.raises(InputError, match=r"m: damaged: .*not those that .*Build it\."):
                is_sealed(Path("m"), bytes(changed), REMEDY)
    assert not is_sealed(Path("m"), b"{}", REMEDY)
    with pytest.raises(ValueError, match="has no leakdet_blake2b"):
        sealed(b"{}")


def test_a_store_is_sealed_but_for_its_mel(path: Path):
    assert store_is_sealed(path, REMEDY)
    with h5py.File(path) as file:
        mel = range(file["mel"].id.get_offset(), file["mel"].id.get_offset() + file["mel"].size * 2)
    whole, flags = path.read_bytes(), range(4096 + 20, 4096 + 24)
    places = {*range(4096, len(whole), 197), mel.start - 1, mel.stop, len(whole) - 1, *mel[:2]}
    for number, at in enumerate(places):
        changed = bytearray(whole)
        changed[at] ^= 1
        path.write_bytes(changed)
        os.utime(path, ns=(number, number))  # a clock may stand still between two writes
        if at in mel or at in flags:
            assert store_is_sealed(path, REMEDY)
            continue
        with pytest.raises(InputError, match=r"train\.h5: damaged"):
            store_is_sealed(path, REMEDY)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda whole: whole[:-1], r"train\.h5: .*cut off \(\d+ of \d+ bytes\)\. Build"),
        (lambda whole: whole + b"x", r"train\.h5: damaged: .*\d+ bytes, not \d+\. Build"),
        (lambda whole: whole.replace(b"left_out", b"left-out"), "first bytes"),
        (lambda whole: whole.replace(b"[[4116", b"[[9116"), "first bytes"),
        (lambda whole: whole.replace(b'"bytes": ', b'"bytes": 9'), "cut off"),
    ],
)
def test_what_is_wrong_is_said(path: Path, change: Any, message: str):
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(InputError, match=message):
        store_is_sealed(path, REMEDY)


def test_stores_of_older_versions_have_no_seal(path: Path, tmp_path: Path):
    with h5py.File(path) as file, h5py.File(tmp_path / "train.h5", "w") as older:
        older.attrs.update(file.attrs)
        for name in file:
            file.copy(name, older)
    assert not store_is_sealed(tmp_path / "train.h5", REMEDY)
    both = [open_split(folder, "train") for folder in (path.parent, tmp_path)]
    assert np.array_equal(*(split.read(0, 8) for split in both))
    assert both[0].recording_ids.tolist() == both[1].recording_ids.tolist()


def test_who_changes_a_store_seals_it_anew(path: Path):
    with h5py.File(path, "r+") as file:
        file["label_id"][0] = 1
    with pytest.raises(InputError, match=r"train\.h5: damaged"):
        open_split(path.parent, "train")
    seal_h5(path)
    assert open_split(path.parent, "train").label_id.tolist() == [1, 1]


def test_the_bytes_are_hashed_once(path: Path, monkeypatch: pytest.MonkeyPatch):
    split = open_split(path.parent, "train")
    monkeypatch.setattr("leakdet.core.files._pieces", None)
    assert split.recording_ids.tolist() == ["0000.wav", "0001.wav"]


def test_an_object_comes_back(tmp_path: Path):
    (tmp_path / "a.json").write_text('{"f1": 0.5}')
    assert read_json(tmp_path / "a.json", "a result") == {"f1": 0.5}


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff", b"[" * 100_000])
def test_what_is_damaged_is_named(tmp_path: Path, content: bytes):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.json: not a result.* Remove it\.$"):
        read_json(tmp_path / "a.json", "a result", "Remove it.")
    with pytest.raises(InputError, match=r"none\.json: not a result \(No such file"):
        read_json(tmp_path / "none.json", "a result")


@given(content=st.binary(max_size=60))
def test_any_bytes_are_an_object_or_refused(tmp_path_factory, content: bytes):
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(content)
    with contextlib.suppress(InputError):
        assert isinstance(read_json(path, "a result"), dict)


def test_undefined_values_are_null_and_never_nan(tmp_path: Path):
    path = tmp_path / "a.json"
    write_json(path, {"f1": None})
    assert read_json(path, "a result") == {"f1": None}
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"f1": float("nan")})
    assert read_json(path, "a result") == {"f1": None}


def test_a_sealed_object_comes_back_and_a_changed_digit_is_noticed(tmp_path: Path):
    path = tmp_path / "a.json"
    write_json(path, {"f1": 0.25}, seal=True)
    assert read_json(path, "a result") == {"f1": 0.25}
    path.write_text(path.read_text().replace("0.25", "0.75"))
    with pytest.raises(InputError, match=r"a\.json: damaged: .*Remove it\."):
        read_json(path, "a result", "Remove it.")


def test_a_taken_name_gets_a_number(tmp_path: Path) -> None:
    wanted = tmp_path / "runs" / "12-00-00"
    made = [fresh_folder(wanted) for _ in range(3)]
    assert [path.name for path in made] == ["12-00-00", "12-00-00-2", "12-00-00-3"]


def test_the_second_run_in_a_folder_is_refused_while_the_first_is_at_it(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    with claimed(folder):
        (folder / "model").touch()
        with pytest.raises(SettingsError, match="mine: another run"), claimed(folder):
            pass
    with claimed(folder):
        assert [path.name for path in folder.iterdir()] == ["model"]
    model = folder / "model"
    for taken in (model, model / "below"):
        message = "model.*: .*needs a folder"
        with pytest.raises(SettingsError, match=message), claimed(taken):
            pass


def test_a_folder_in_which_nothing_was_written_does_not_stay(tmp_path: Path) -> None:
    with claimed(tmp_path / "a" / "b"):
        assert (tmp_path / "a" / "b").is_dir()
    assert not (tmp_path / "a" / "b").exists()


def test_further_processes_of_a_run_share_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with claimed(tmp_path):
        monkeypatch.setenv("LOCAL_RANK", "1")
        with claimed(tmp_path):
            (tmp_path / "shared").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["shared"]


def test_a_launchers_numbers_make_no_processes_of_a_run_that_is_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a run on several devices only empty ones go; what is no number is named."""
    for name in (*files.RANKS, *files.LAUNCHERS):
        monkeypatch.setenv(name, "2")
    monkeypatch.setenv("RANK", " ")
    files.forget_launcher(alone=False)
    assert "RANK" not in os.environ
    assert files.launcher_rank("LOCAL_RANK") == 2
    assert files.is_further_process()
    files.forget_launcher(alone=True)
    assert not {*files.RANKS, *files.LAUNCHERS} & os.environ.keys()
    assert not files.is_further_process()
    monkeypatch.setenv("LOCAL_RANK", "x")
    with pytest.raises(SettingsError, match=r"LOCAL_RANK=x: .*unset LOCAL_RANK"):
        files.forget_launcher(alone=True)


def fail_with(number: int) -> Any:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    return fail


NUMBERS = [errno.EINVAL, errno.EPERM, errno.ENOTSUP]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_folder_that_cannot_be_synced_loses_nothing(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def of_files_only(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(number, os.strerror(number))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", of_files_only)
    files.write_whole(tmp_path / "a", "text")
    with output_file(tmp_path / "rows.csv") as file:
        file.write("row")
    assert names(tmp_path) == ["a", "rows.csv"]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(
    ("module", "call", "feature"),
    [(os, "fsync", "fsync"), (Path, "replace", "replace a file by renaming")],
)
def test_what_a_file_system_lacks_is_named_with_the_file_and_the_way_out(
    module: Any, call: str, feature: str, number: int, tmp_path: Path, monkeypatch: Any
) -> None:
    """The rows that were written stay beside, and nothing else."""
    monkeypatch.setattr(module, call, fail_with(number))
    message = rf"{tmp_path}/rows.csv: .*{feature}.*Write to another"
    with pytest.raises(InputError, match=message):
        files.write_whole(tmp_path / "rows.csv", "text")
    with pytest.raises(InputError, match=message), output_file(tmp_path / "rows.csv") as file:
        file.write("row")
    assert names(tmp_path) == ["rows.csv.partial"]
    monkeypatch.setattr(module, call, fail_with(errno.EIO))
    with pytest.raises(OSError, match=f"Input/output error: '{tmp_path}/a'"):
        files.write_whole(tmp_path / "a", "text")


@pytest.mark.parametrize("number", NUMBERS)
def test_without_locks_work_goes_on_and_where_it_matters_it_is_said(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, messages: Any
) -> None:
    for module in (files, write):
        monkeypatch.setattr(module, "flock", fail_with(number))
    with claimed(tmp_path / "run"), staged_folder(tmp_path / "store") as folder:
        publish(folder, tmp_path / "store")
    with output_file(tmp_path / "rows.csv") as file:
        file.write("row")
    assert not messages.text
    with locked(tmp_path / "lock"):
        assert f"{tmp_path}: its file system has no locks (flock)" in messages.text


def test_a_file_with_two_numbers_is_opened_all_the_same(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(os.path, "samestat", lambda *_: False)
    with output_file(tmp_path / "rows.csv") as file:
        file.write("row")
    assert (tmp_path / "rows.csv").read_text() == "row"


def test_a_link_that_cannot_be_made_leaves_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(os, "replace", fail_with(errno.EPERM))
    with pytest.raises(PermissionError):
        files.replace_link(tmp_path / "latest", "model")
    assert names(tmp_path) == []


def test_a_second_build_into_a_cache_waits_for_the_first(tmp_path: Path, caplog: Any) -> None:
    out, order = tmp_path / "store", list[str]()

    def build() -> None:
        with files.building_alone(out):
            order.append("second")

    thread = threading.Thread(target=build)
    with caplog.at_level("INFO"), files.building_alone(out):
        thread.start()
        while "another command is building" not in caplog.text:
            time.sleep(0.01)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert names(tmp_path) == []


def test_a_second_build_into_one_place_is_refused_while_the_first_is_at_it(tmp_path: Path) -> None:
    out = tmp_path / "store"
    with (
        files.building_alone(out, "out"),
        pytest.raises(InputError, match=f"out={out}: another build is writing"),
        files.building_alone(out, "out"),
    ):
        pass
    with files.building_alone(out, "out"):
        pass
    assert names(tmp_path) == []
