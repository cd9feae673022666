import errno
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from leakdet.core.errors import InputError
from leakdet.storage import mel_array
from leakdet.storage.mel_array import MelArray, MelPart
from leakdet.storage.views import PickedMel

WINDOWS, PER_ROW = 512, 8
PACKED = {"compression": "lzf", "chunks": True}


def array_of(path: Path, shape: tuple[int, ...], **how: Any) -> tuple[MelArray, np.ndarray]:
    """8 MB of windows, in which each holds its own number, stored as `shape`."""
    mel = np.empty((WINDOWS, 4, 64, 32), np.float16)
    mel[:] = np.arange(WINDOWS)[:, None, None, None]
    with h5py.File(path, "w") as file:
        file.create_dataset("mel", data=mel.reshape(shape), **how)
        return MelArray([MelPart.of(path, file["mel"], mel.shape)]), mel


def peak_bytes(read: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        read()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("shape", "how"),
    [
        ((WINDOWS, 4, 64, 32), PACKED),
        ((WINDOWS // PER_ROW, PER_ROW, 4, 1, 64, 32), PACKED),
        ((WINDOWS, 4, 64, 32), {}),
    ],
    ids=["packed", "packed AILH", "contiguous"],
)
def test_a_split_is_in_memory_once_while_it_is_read(
    tmp_path: Path, shape: tuple[int, ...], how: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mel_array, "GATHER_BYTES", 1 << 18)
    mel, expected = array_of(tmp_path / "x.h5", shape, **how)
    picked = PickedMel(mel, np.arange(WINDOWS)[::-1])
    out = np.empty_like(expected)
    for reading, ready in (
        (lambda: mel.read(0, WINDOWS), 0),
        (lambda: mel.read(0, WINDOWS, out), expected.nbytes),
        (lambda: picked.read(0, WINDOWS), 0),
        (lambda: picked.read(0, WINDOWS, out), expected.nbytes),
        (lambda: picked.gather(np.arange(WINDOWS)), 0),
    ):
        assert peak_bytes(reading) < 1.25 * expected.nbytes - ready
    assert np.array_equal(mel.read(0, WINDOWS), expected)
    assert np.array_equal(picked.read(0, WINDOWS), expected[::-1])


def test_any_range_of_packed_recordings_is_read(tmp_path: Path) -> None:
    """A recording of AILH is unpacked as a whole; what is asked for may begin and end inside of it."""
    mel, expected = array_of(tmp_path / "x.h5", (WINDOWS // PER_ROW, PER_ROW, 4, 64, 32), **PACKED)
    for start, stop in ((0, 8), (3, 5), (3, 8), (8, 11), (3, 30), (8, 24), (5, 5), (504, 512)):
        assert np.array_equal(mel.read(start, stop), expected[start:stop])
    index = np.array([9, 3, 3, 500, 4, 5, 0])
    assert np.array_equal(mel.gather(index), expected[index])


@pytest.mark.parametrize("how", [{}, PACKED], ids=["contiguous", "packed"])
def test_parts_are_read_as_one_array(tmp_path: Path, how: dict[str, Any]) -> None:
    parts = []
    for number in range(3):
        mel, _ = array_of(tmp_path / f"{number}.h5", (WINDOWS, 4, 64, 32), **how)
        parts += mel.parts
    mel = MelArray(parts)
    assert mel.shape == (3 * WINDOWS, 4, 64, 32)
    assert mel.mapped is None
    assert mel.nbytes == 3 * mel.window_bytes * WINDOWS
    of_part = mel.read(WINDOWS - 2, 2 * WINDOWS + 2)[:, 0, 0, 0]
    assert of_part.tolist() == [510, 511, *range(512), 0, 1]
    assert mel.gather(np.array([1535, 0, 511, 512]))[:, 0, 0, 0].tolist() == [511, 0, 511, 0]


def test_large_chunks_are_slow_and_the_remedy_is_named(tmp_path: Path) -> None:
    mel, _ = array_of(tmp_path / "x.h5", (WINDOWS, 4, 64, 32), chunks=(128, 4, 64, 32))
    assert "holds 128 windows (2.1 MB)" in mel.slow_chunks
    assert "leakdet build" in mel.slow_chunks
    small, _ = array_of(tmp_path / "y.h5", (WINDOWS, 4, 64, 32), chunks=(16, 4, 64, 32))
    assert small.slow_chunks is None


def test_a_file_that_went_away_is_named(tmp_path: Path) -> None:
    mel, _ = array_of(tmp_path / "x.h5", (WINDOWS, 4, 64, 32))
    (tmp_path / "x.h5").unlink()
    with pytest.raises(InputError, match=r"x\.h5: .*no longer .*moved"):
        mel.read(0, 1)


def test_a_file_system_that_maps_no_files_is_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENODEV, "no mmap")

    mel, expected = array_of(tmp_path / "x.h5", (WINDOWS, 4, 64, 32))
    monkeypatch.setattr(np, "memmap", refuse)
    assert mel.mapped is None
    assert np.array_equal(mel.gather(np.arange(5)), expected[:5])
