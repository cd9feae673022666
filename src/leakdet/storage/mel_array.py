"""The windows of a split as one array [W, S, M, T] float16 that may lie in several files."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from leakdet.errors import InputError
from leakdet.storage.hdf5 import PAGE_BYTES, open_h5


@dataclass(frozen=True)
class MelPart:
    """The mel of one file: where its bytes are (offset None where it is chunked and must be read through HDF5)."""

    path: Path
    dataset: str
    shape: tuple[int, ...]  # [W, S, M, T]: how it is read
    stored_shape: tuple[
        int, ...
    ]  # how it lies in the file; a predecessor's has the recording as its first axis
    dtype: str
    offset: int | None
    chunk_bytes: int = 0  # of one HDF5 chunk, unpacked; 0 where the data set is contiguous

    @classmethod
    def of(
        cls, path: Path, dataset: h5py.Dataset, shape: tuple[int, ...] | None = None
    ) -> "MelPart":
        """Raises `InputError` where the file is shorter than its own description."""
        offset = dataset.id.get_offset()
        end = (offset or 0) + dataset.size * dataset.dtype.itemsize
        if offset is not None and path.stat().st_size < end:
            raise InputError(
                f"{path}: it is cut off ({path.stat().st_size} of {end} bytes). Build it again."
            )
        return cls(
            path=path,
            dataset=dataset.name,
            shape=shape or dataset.shape,
            stored_shape=dataset.shape,
            dtype=dataset.dtype.str,
            offset=offset if dataset.size else None,
            chunk_bytes=math.prod(dataset.chunks or (0,)) * dataset.dtype.itemsize,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "mapped"}

    def read_into(self, start: int, out: np.ndarray) -> None:
        """Fill `out` with windows [start, start + len(out)). Unlike `mapped` it adds nothing to the process's memory."""
        if self.offset is None:
            self._unpack_into(start, out)
            return
        wanted = out.data.cast("B") if out.size else memoryview(b"")
        at = self.offset + start * math.prod(self.shape[1:]) * out.itemsize
        try:
            # opened anew: nothing to close, to pickle or to share with a fork
            with self.path.open("rb", buffering=0) as file:
                file.seek(at)
                done = 0
                while done < len(wanted):
                    count = file.readinto(wanted[done:])
                    if not count:
                        raise InputError(
                            f"{self.path}: it ends at byte {at + done}. Build it again."
                        )
                    done += count
        except OSError as error:
            raise InputError(
                f"{self.path}: can no longer be read ({error.strerror}). See that its disk is there and that it was not moved."
            ) from error

    def _unpack_into(self, start: int, out: np.ndarray) -> None:
        """Through HDF5, straight into `out`: a large split fits in memory once, not twice."""
        per_row, stop = self._windows_per_row, start + len(out)
        # Rows that are wanted in part, as only a predecessor's may be, are unpacked whole, beside `out`.
        head = min(stop, -(-start // per_row) * per_row)
        tail = max(head, stop // per_row * per_row)
        out[: head - start] = self.rows(start, head)
        out[tail - start :] = self.rows(tail, stop)
        if head < tail:
            inner = out[head - start : tail - start]
            # a view: windows lie one after another
            inner = inner.reshape(-1, *self.stored_shape[1:])
            with self._unpacking(head, tail) as dataset:
                dataset.read_direct(inner, np.s_[head // per_row : tail // per_row])

    @property
    def _windows_per_row(self) -> int:
        """Windows of one stored row: 1, or all those of a predecessor's recording."""
        return self.shape[0] // self.stored_shape[0] if self.shape[0] else 1

    @contextmanager
    def _unpacking(self, start: int, stop: int) -> Iterator[h5py.Dataset]:
        with open_h5(self.path) as file:
            try:
                yield file[self.dataset]
            except OSError as error:
                raise InputError(
                    f"{self.path}: windows {start} to {stop} cannot be read ({str(error).splitlines()[0]}). Build it again."
                ) from error

    @cached_property
    def mapped(self) -> np.ndarray | None:
        """The whole part as a memory map, or None where it is compressed."""
        if self.offset is None:
            return None
        return np.memmap(
            self.path, dtype=self.dtype, mode="r", offset=self.offset, shape=self.shape
        )

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Windows [start, stop) as they lie in the file."""
        if self.mapped is not None:
            return self.mapped[start:stop]
        if start >= stop:
            return np.empty((0, *self.shape[1:]), self.dtype)
        per_row = self._windows_per_row
        first, last = start // per_row, -(-stop // per_row)
        with self._unpacking(start, stop) as dataset:
            block = dataset[first:last]
        windows = np.asarray(block).reshape(-1, *self.shape[1:])
        return windows[start - first * per_row : stop - first * per_row]

    def gather(self, index: np.ndarray) -> np.ndarray:
        """Windows `index` [N], any order, duplicates allowed; those that lie one after another are read at once."""
        if self.mapped is not None:
            return np.asarray(self.mapped[index])
        unique, back = np.unique(index, return_inverse=True)
        found = np.empty((len(unique), *self.shape[1:]), np.float16)
        ends = [*np.flatnonzero(np.diff(unique) != 1) + 1, len(unique)]
        for low, high in pairwise([0, *ends]):
            self.read_into(int(unique[low]), found[low:high])
        return found[back]


def page_aligned(shape: tuple[int, ...]) -> np.ndarray:
    """Memory for float16 that begins at a page, as numpy's large arrays do not: a segment of 128 bytes lies in two lines of the
    processor's cache then, not in three. Random reads take a sixth less time.
    """
    size = math.prod(shape) * 2
    room = np.empty(size + PAGE_BYTES, np.uint8)
    start = -room.ctypes.data % PAGE_BYTES
    return room[start : start + size].view(np.float16).reshape(shape)


CHUNK_BYTES = 1 << 20  # a larger HDF5 chunk costs more to unpack than what is read of it at a time
GATHER_BYTES = 16 << 20  # of windows gathered at a time: what lies in memory beside the result


class MelArray:
    """Parts in order, addressed by window over all of them.

    Shape: [W, S, M, T] float16; slices and gathers return arrays in the order that was asked for, duplicates included.
    """

    def __init__(self, parts: list[MelPart]) -> None:
        self.parts = parts
        self._starts = np.concatenate([[0], np.cumsum([part.shape[0] for part in parts])]).astype(
            np.int64
        )

    @property
    def shape(self) -> tuple[int, int, int, int]:
        s, m, t = self.parts[0].shape[1:]
        return int(self._starts[-1]), s, m, t

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape)) * 2

    @property
    def window_bytes(self) -> int:
        return math.prod(self.shape[1:]) * 2

    @property
    def slow_chunks(self) -> str | None:
        """Why reading some windows of these files takes long, and the way out; None where it does not."""
        worst = max(self.parts, key=lambda part: part.chunk_bytes)
        if worst.chunk_bytes <= CHUNK_BYTES:
            return None
        windows = worst.chunk_bytes // self.window_bytes
        return (
            f"{worst.path}: one HDF5 chunk holds {windows} windows ({worst.chunk_bytes / 1e6:.1f} MB), and to read one of them "
            "all are unpacked. python -m leakdet.build source=… out=… rewrites it without chunks."
        )

    @property
    def mapped(self) -> np.ndarray | None:
        """All windows as one memory map, or None where they are in several files or compressed."""
        return self.parts[0].mapped if len(self.parts) == 1 else None

    def read(self, start: int, stop: int, out: np.ndarray | None = None) -> np.ndarray:
        """Windows [start, stop) in memory of their own, or in `out` [stop - start, S, M, T] float16."""
        if out is None:
            out = page_aligned((stop - start, *self.shape[1:]))
        for part, low in zip(self.parts, self._starts[:-1].tolist(), strict=True):
            first, last = max(start, low), min(stop, low + part.shape[0])
            if first < last:
                part.read_into(first - low, out[first - start : last - start])
        return out

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Windows [start, stop)."""
        pieces = [
            part.rows(int(max(0, start - low)), int(min(part.shape[0], stop - low)))
            for part, low in zip(self.parts, self._starts[:-1], strict=True)
            if start < low + part.shape[0] and stop > low
        ]
        if not pieces:
            return np.empty((0, *self.shape[1:]), np.float16)
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def gather(self, index: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Windows `index` [N], any order, duplicates allowed, in memory of their own, or in `out` [N, S, M, T] float16."""
        if out is None:
            out = np.empty((len(index), *self.shape[1:]), np.float16)
        which = np.searchsorted(self._starts, index, side="right") - 1
        step = max(1, GATHER_BYTES // self.window_bytes)
        for number, part in enumerate(self.parts):
            wanted = np.flatnonzero(which == number)
            for at in range(0, len(wanted), step):
                some = wanted[at : at + step]
                out[some] = part.gather(index[some] - self._starts[number])
        return out
