import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from leakdet.core.errors import InputError
from leakdet.storage import hdf5
from leakdet.storage.hdf5 import check_ends, open_h5
from leakdet.storage.opening import open_split


def store(path: Path) -> bytearray:
    with h5py.File(path, "w") as file:
        file["labels"] = np.arange(4)
        file.create_dataset("mel", data=np.zeros((8, 4), np.float16), chunks=(2, 4))
    return bytearray(path.read_bytes())


def test_a_file_without_a_seal_is_looked_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.h5"
    store(path)
    for _ in range(2):
        with open_h5(path) as file:
            assert file["labels"][...].tolist() == [0, 1, 2, 3]
        monkeypatch.setattr(hdf5, "LOOK", "import os; os.abort()")
    path.touch()  # changed
    with pytest.raises(InputError, match="never comes to"):
        check_ends(path, "Build it again.")


LIMIT = f"({hdf5.CPU_S}, {hdf5.CPU_S} + 1)"
SHORT_LOOK = hdf5.LOOK.replace(LIMIT, "(1, 2)")


def test_a_list_of_free_places_that_is_a_circle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HDF5 follows it for ever, and takes memory at every turn."""
    monkeypatch.setattr(hdf5, "LOOK", SHORT_LOOK)
    path = tmp_path / "x.h5"
    content = store(path)
    _, free, data = struct.unpack_from("<QQQ", content, content.index(b"HEAP") + 8)
    struct.pack_into("<Q", content, data + free, free)
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"x\.h5: damaged: .* never .* Build"), open_h5(path):
        pass


def test_a_look_that_takes_time_without_end_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.h5"
    store(path)
    assert LIMIT in hdf5.LOOK
    monkeypatch.setattr(hdf5, "LOOK", SHORT_LOOK + "\nwhile True: pass")
    started = time.process_time()
    with pytest.raises(InputError, match="never comes to"):
        check_ends(path, "Build it again.")
    assert time.process_time() - started < 1  # waiting costs nothing


def test_other_damage_is_left_to_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    path.write_bytes(store(path)[:700])
    check_ends(path, "Build it again.")
    with pytest.raises(InputError, match="it is cut off"), open_h5(path):
        pass


WRITING = """
import sys, h5py
file = h5py.File(sys.argv[1], "r+", locking=True)
print("open", flush=True)
sys.stdin.read()
"""


def test_a_reader_works_while_a_writer_has_the_file_open(write_store: Any, planted: Any) -> None:
    """The writer holds HDF5's lock; readers ask for none."""
    store = write_store(train=[planted("leak", 1), planted("other", 2)])
    command = [sys.executable, "-c", WRITING, str(store / "train.h5")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        split = open_split(store, "train")
        assert np.array_equal(split.read(0, 4), planted("leak", 1).mel())
        assert writer.poll() is None
        writer.communicate("")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            BlockingIOError(
                11, "Unable to synchronously open file (unable to lock file, errno = 11)"
            ),
            r"x\.h5: .*locked\)\. .*wait.*HDF5_USE_FILE_LOCKING=FALSE",
        ),
        (
            OSError("Unable to synchronously open file (file is already open for write)"),
            r"locked.*HDF5_USE_FILE_LOCKING=FALSE",
        ),
        (PermissionError(13, "Permission denied"), r"permission denied\)\. Ask its owner"),
        (OSError("truncated file: eof = 1"), r"cut off\)\. Build"),
        (
            OSError("file signature not found\nmore"),
            r"\(damaged: file signature not found\)\. Build",
        ),
    ],
)
def test_what_stands_in_the_way_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, message: str
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(h5py, "File", refuse)
    with pytest.raises(InputError, match=message), open_h5(tmp_path / "x.h5"):
        pass


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match=r"x\.h5: .*no such file"),
        open_h5(tmp_path / "x.h5"),
    ):
        pass


def test_a_file_that_the_caller_has_open_is_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["mel"] = np.arange(3)
    with h5py.File(tmp_path / "x.h5"), open_h5(tmp_path / "x.h5") as file:
        assert file["mel"][...].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            KeyError("unable to open object"),
            r"x\.h5: .*\(damaged: 'unable to open object'\)\. Build",
        ),
        (
            RuntimeError("wrong B-tree\nmore"),
            r"x\.h5: .*\(damaged: wrong B-tree\)\. Build",
        ),
        (TypeError(), r"x\.h5: .*\(damaged: TypeError\)\. Build .*or copy it"),
        (MemoryError(), r"x\.h5: .*more memory .*Build"),
        (
            OSError("Can't read data (file read failed: errno = 5, error message = 'I/O error', b"),
            r"x\.h5: .*\(I/O error\)\. .*disk",
        ),
        (OSError("errno = 22, error message = 'Invalid argument'"), r"damaged: errno = 22.*Build"),
        (InputError("what was said"), "^what was said$"),
    ],
)
def test_a_fault_that_is_met_while_reading_is_said(
    tmp_path: Path, error: Exception, message: str
) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["mel"] = np.arange(3)
    with pytest.raises(InputError, match=message), open_h5(tmp_path / "x.h5"):
        raise error
