"""The windows of a split as one array [W, S, M, T] float16 that may lie in several files."""

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from leakdet.errors import InputError


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
    def of(cls, path: Path, dataset: h5py.Dataset, shape: tuple[int, ...] | None = None) -> "MelPart":
        """Raises `InputError` where the file is shorter than its own description."""
        offset = dataset.id.get_offset()
        end = (offset or 0) + dataset.size * dataset.dtype.itemsize
        if offset is not None and path.stat().st_size < end:
            raise InputError(f"{path}: it is cut off ({path.stat().st_size} of {end} bytes). Build it again.")
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
            out[...] = self.rows(start, start + len(out))
            return
        wanted = out.data.cast("B") if out.size else memoryview(b"")
        at = self.offset + start * math.prod(self.shape[1:]) * out.itemsize
        with self.path.open(
            "rb", buffering=0
        ) as file:  # opened anew: nothing to close, to pickle or to share with a fork
            file.seek(at)
            done = 0
            while done < len(wanted):
                count = file.readinto(wanted[done:])
                if not count:
                    raise InputError(f"{self.path}: it ends at byte {at + done}. Build it again.")
                done += count

    @cached_property
    def mapped(self) -> np.ndarray | None:
        """The whole part as a memory map, or None where it is compressed."""
        if self.offset is None:
            return None
        return np.memmap(self.path, dtype=self.dtype, mode="r", offset=self.offset, shape=self.shape)

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Windows [start, stop) as they lie in the file."""
        if self.mapped is not None:
            return self.mapped[start:stop]
        if start >= stop:
            return np.empty((0, *self.shape[1:]), self.dtype)
        per_row = (
            self.shape[0] // self.stored_shape[0]
        )  # windows per stored row: 1, or a predecessor's per recording
        first, last = start // per_row, -(-stop // per_row)
        try:
            with h5py.File(self.path, "r", locking=False) as file:
                block = file[self.dataset][first:last]
        except OSError as error:
            raise InputError(
                f"{self.path}: windows {start} to {stop} cannot be read ({str(error).splitlines()[0]}). Build it again."
            ) from error
        windows = np.asarray(block).reshape(-1, *self.shape[1:])
        return windows[start - first * per_row : stop - first * per_row]


CHUNK_BYTES = 1 << 20  # a larger HDF5 chunk costs more to unpack than what is read of it at a time


class MelArray:
    """Parts in order, addressed by window over all of them.

    Shape: [W, S, M, T] float16; slices and gathers return arrays in the order that was asked for, duplicates included.
    """

    def __init__(self, parts: list[MelPart]) -> None:
        self.parts = parts
        self._starts = np.concatenate([[0], np.cumsum([part.shape[0] for part in parts])]).astype(np.int64)

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
            out = np.empty((stop - start, *self.shape[1:]), np.float16)
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

    def gather(self, index: np.ndarray) -> np.ndarray:
        """Windows `index` [N], any order, duplicates allowed."""
        out = np.empty((len(index), *self.shape[1:]), np.float16)
        which = np.searchsorted(self._starts, index, side="right") - 1
        for number, part in enumerate(self.parts):
            wanted = np.flatnonzero(which == number)
            if not wanted.size:
                continue
            local = index[wanted] - self._starts[number]
            if part.mapped is not None:
                out[wanted] = part.mapped[local]
            else:
                unique, back = np.unique(local, return_inverse=True)
                out[wanted] = np.stack([part.rows(row, row + 1)[0] for row in unique.tolist()])[back]
        return out
