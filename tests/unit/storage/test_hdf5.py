"""What stands in the way of reading a file is said in a line, with the way out."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from leakdet.errors import InputError
from leakdet.storage.hdf5 import open_h5
from leakdet.storage.opening import open_split

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
            r"x\.h5: cannot be read as HDF5 \(it is locked\)\. .*wait.*HDF5_USE_FILE_LOCKING=FALSE",
        ),
        (
            OSError("Unable to synchronously open file (file is already open for write)"),
            r"it is locked.*HDF5_USE_FILE_LOCKING=FALSE",
        ),
        (PermissionError(13, "Permission denied"), r"permission denied\)\. Ask its owner"),
        (OSError("truncated file: eof = 1"), r"it is cut off\)\. Build the store again"),
        (
            OSError("file signature not found\nmore"),
            r"\(damaged: file signature not found\)\. Build the store again",
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
        pytest.raises(InputError, match=r"x\.h5: .*there is no such file"),
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
            r"x\.h5: .*\(damaged: wrong B-tree\)\. Build the store",
        ),
        (TypeError(), r"x\.h5: .*\(damaged: TypeError\)\. Build the store again, or copy it again"),
        (MemoryError(), r"x\.h5: .*more memory than there is\)\. If others can be read: Build"),
        (
            OSError("Can't read data (file read failed: errno = 5, error message = 'I/O error', b"),
            r"x\.h5: .*\(I/O error\)\. Was it moved, or its disk disconnected\?",
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
