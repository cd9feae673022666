"""The windows of a split as one array [W, S, M, T] float16 that may lie in several files."""

import errno
import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from jaxtyping import Float16, Int

from leakdet.core.errors import InputError
from leakdet.core.files import LACKING
from leakdet.storage.hdf5 import open_h5

CHUNK_BYTES = 1 << 20  # reading one window from a larger HDF5 chunk is slow
GATHER_BYTES = 16 << 20  # gathered at a time: the memory used beside the result


@dataclass(frozen=True)
class MelPart:
    """Mel of one file. `offset` is that of its bytes; None where only HDF5 can read them."""

    path: Path
    dataset: str
    shape: tuple[int, ...]  # [W, S, M, T] as read
    stored_shape: tuple[int, ...]  # in the file; of an AILH file [recordings, windows, …]
    dtype: str
    offset: int | None
    chunk_bytes: int = 0  # of an HDF5 chunk, unpacked; 0: contiguous

    @classmethod
    def of(
        cls, path: Path, dataset: h5py.Dataset, shape: tuple[int, ...] | None = None
    ) -> "MelPart":
        """Locate a data set, read as `shape`. Raises `InputError` where its file is cut off."""
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

    @cached_property
    def mapped(self) -> Float16[np.ndarray, "W S M T"] | None:
        """The whole part as a memory map; None where only HDF5, or no map, can read it."""
        if self.offset is None:
            return None
        try:
            return np.memmap(
                self.path, dtype=self.dtype, mode="r", offset=self.offset, shape=self.shape
            )
        except OSError as error:
            if error.errno not in (*LACKING, errno.ENODEV):
                raise
            return None  # a file system that maps no files

    def read_into(self, start: int, out: Float16[np.ndarray, "W S M T"]) -> None:
        """Fill `out` with the windows from `start` on, without mapping the file into memory."""
        if self.offset is None:
            self._unpack_into(start, out)
            return
        target = out.data.cast("B") if out.size else memoryview(b"")
        start_byte = self.offset + start * math.prod(self.shape[1:]) * out.itemsize
        try:
            # opened for each read: nothing to close, to pickle or to share with a fork
            with self.path.open("rb", buffering=0) as file:
                file.seek(start_byte)
                done = 0
                while done < len(target):
                    count = file.readinto(target[done:])
                    if not count:
                        end = start_byte + done
                        raise InputError(f"{self.path}: it ends at byte {end}. Build it again.")
                    done += count
        except OSError as error:
            raise InputError(
                f"{self.path}: can no longer be read ({error.strerror}). Was it moved, or its disk "
                "disconnected?"
            ) from error

    def gather(self, index: Int[np.ndarray, " N"]) -> Float16[np.ndarray, "N S M T"]:
        """Windows in the order of `index`, duplicates allowed; runs of windows are read at once."""
        if self.mapped is not None:
            return np.asarray(self.mapped[index])
        unique, inverse = np.unique(index, return_inverse=True)
        windows = np.empty((len(unique), *self.shape[1:]), np.float16)
        ends = [*np.flatnonzero(np.diff(unique) != 1) + 1, len(unique)]
        for low, high in pairwise([0, *ends]):
            self.read_into(int(unique[low]), windows[low:high])
        return windows[inverse]

    def _unpack_into(self, start: int, out: np.ndarray) -> None:
        """Read through HDF5 straight into `out`: a large split is in memory once, not twice."""
        per_row = self.shape[0] // self.stored_shape[0] if self.shape[0] else 1
        stop = start + len(out)
        # rows of which only some windows are read, as in AILH files, are unpacked beside `out`
        head = min(stop, -(-start // per_row) * per_row)
        tail = max(head, stop // per_row * per_row)
        with open_h5(self.path) as file:
            dataset = file[self.dataset]
            for low, high in ((start, head), (tail, stop)):
                if low < high:
                    row = dataset[low // per_row].reshape(-1, *self.shape[1:])
                    first = low // per_row * per_row
                    out[low - start : high - start] = row[low - first : high - first]
            if head < tail:
                inner = out[head - start : tail - start].reshape(-1, *self.stored_shape[1:])
                dataset.read_direct(inner, np.s_[head // per_row : tail // per_row])


class MelArray:
    """Parts in order, addressed by window over all of them: [W, S, M, T] float16."""

    def __init__(self, parts: list[MelPart]) -> None:
        self.parts = parts
        counts = [part.shape[0] for part in parts]
        self.starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """[W, S, M, T]."""
        segments, mels, frames = self.parts[0].shape[1:]
        return int(self.starts[-1]), segments, mels, frames

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * 2

    @property
    def window_bytes(self) -> int:
        return math.prod(self.shape[1:]) * 2

    @property
    def slow_chunks(self) -> str | None:
        """A sentence with the remedy where reading single windows is slow; else None."""
        worst = max(self.parts, key=lambda part: part.chunk_bytes)
        if worst.chunk_bytes <= CHUNK_BYTES:
            return None
        windows = worst.chunk_bytes // self.window_bytes
        return (
            f"{worst.path}: an HDF5 chunk holds {windows} windows "
            f"({worst.chunk_bytes / 1e6:.1f} MB), all of which are unpacked to read one. "
            "leakdet build RECORDINGS STORE rewrites it without chunks."
        )

    @property
    def mapped(self) -> Float16[np.ndarray, "W S M T"] | None:
        """All windows as one memory map; None where they are in several files or compressed."""
        return self.parts[0].mapped if len(self.parts) == 1 else None

    def read(
        self, start: int, stop: int, out: Float16[np.ndarray, "W S M T"] | None = None
    ) -> Float16[np.ndarray, "W S M T"]:
        """Windows [start, stop), in new memory or in `out`."""
        if out is None:
            out = np.empty((stop - start, *self.shape[1:]), np.float16)
        for part, low in zip(self.parts, self.starts[:-1].tolist(), strict=True):
            first, last = max(start, low), min(stop, low + part.shape[0])
            if first < last:
                part.read_into(first - low, out[first - start : last - start])
        return out

    def gather(
        self, index: Int[np.ndarray, " N"], out: Float16[np.ndarray, "N S M T"] | None = None
    ) -> Float16[np.ndarray, "N S M T"]:
        """Windows in the order of `index`, duplicates allowed, in new memory or in `out`."""
        if out is None:
            out = np.empty((len(index), *self.shape[1:]), np.float16)
        part_of = np.searchsorted(self.starts, index, side="right") - 1
        step = max(1, GATHER_BYTES // self.window_bytes)
        for number, part in enumerate(self.parts):
            rows = np.flatnonzero(part_of == number)
            for at in range(0, len(rows), step):
                some = rows[at : at + step]
                out[some] = part.gather(index[some] - self.starts[number])
        return out
