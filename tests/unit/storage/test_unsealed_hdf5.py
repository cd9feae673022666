"""A circle of addresses in a file without a seal is found by a process that may be ended."""

import struct
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

from leakdet.errors import InputError
from leakdet.storage import unsealed_hdf5
from leakdet.storage.hdf5 import open_h5
from leakdet.storage.unsealed_hdf5 import check_ends


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
        monkeypatch.setattr(unsealed_hdf5, "LOOK", "import os; os.abort()")
    path.touch()  # changed
    with pytest.raises(InputError, match="never comes to an end"):
        check_ends(path, "Build it again.")


def test_a_list_of_free_places_that_is_a_circle(tmp_path: Path) -> None:
    """HDF5 follows it for ever, and takes memory at every turn."""
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
    limit = f"({unsealed_hdf5.CPU_S}, {unsealed_hdf5.CPU_S} + 1)"
    assert limit in unsealed_hdf5.LOOK
    endless = unsealed_hdf5.LOOK.replace(limit, "(1, 2)") + "\nwhile True: pass"
    monkeypatch.setattr(unsealed_hdf5, "LOOK", endless)
    started = time.process_time()
    with pytest.raises(InputError, match="never comes to an end"):
        check_ends(path, "Build it again.")
    assert time.process_time() - started < 1  # waiting costs nothing


def test_other_damage_is_left_to_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    path.write_bytes(store(path)[:700])
    check_ends(path, "Build it again.")
    with pytest.raises(InputError, match="it is cut off"), open_h5(path):
        pass
