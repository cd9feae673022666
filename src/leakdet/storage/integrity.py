"""Integrity of a split's mel: checksums, finite values, recordings that were never computed."""

import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import Float16, UInt32

from leakdet.core.errors import InputError, first_few
from leakdet.core.parallel import in_order
from leakdet.core.progress import ProgressCounter
from leakdet.storage.ailh import is_ailh
from leakdet.storage.hdf5 import REBUILD
from leakdet.storage.store import StoreSplit
from leakdet.storage.views import file_rows

BLOCK_BYTES = 16 << 20
NOT_FINITE = 0x7C00  # float16: bits of infinity; NaN lies above


def check_contents(split: StoreSplit) -> UInt32[np.ndarray, " R"]:
    """Read and check every recording, on all cores. Returns their CRC-32."""
    sums = np.zeros(split.recordings, np.uint32)
    uncomputed: list[int] = []

    def check(bounds: tuple[int, int]) -> list[int]:
        first, last = bounds
        start, stop = split.recording_offsets[[first, last]].tolist()
        mel = split.read(start, stop)
        _check_finite(split, first, mel)
        sums[first:last] = _checked_sums(split, first, last, mel)
        return _uncomputed(split, first, last, mel)

    # read here once, not by each thread
    _ = split.checksums, split.recording_ids, split.has_dead_windows
    title = f"reading {split.name}"
    with ProgressCounter(title, split.recordings, "recordings", closing=False) as progress:
        for (first, last), rows in in_order(check, _blocks(split)):
            uncomputed += rows
            progress.step(last - first)
    _refuse_uncomputed(split, uncomputed)
    return sums


def check_recordings(
    split: StoreSplit, first: int, last: int, mel: Float16[np.ndarray, "W S M T"]
) -> None:
    """Check recordings [first, last), whose windows are `mel`. Raises as `check_contents`."""
    _check_finite(split, first, mel)
    if split.checksums is not None:
        _checked_sums(split, first, last, mel)
    _refuse_uncomputed(split, _uncomputed(split, first, last, mel))


def convert_command(split: StoreSplit) -> str:
    """The command that converts an AILH store, as the start of a sentence about what that does."""
    command = f"leakdet build {split.files[0].parent} NEW_FOLDER"
    return f"{command} converts the store and"


def listed(split: StoreSplit, rows: Sequence[int]) -> str:
    """Names of the first few of these recordings."""
    return first_few([str(split.recording_ids[row]) for row in rows])


def _blocks(split: StoreSplit) -> Iterator[tuple[int, int]]:
    """Recordings [first, last) of about `BLOCK_BYTES` each."""
    ends = np.cumsum(split.windows_per_recording * split.mel.window_bytes)
    first = 0
    while first < split.recordings:
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + BLOCK_BYTES, side="right")))
        yield first, last
        first = last


def _bits(mel: np.ndarray) -> np.ndarray:
    """[W, numbers] uint16."""
    return mel.reshape(len(mel), -1).view(np.uint16)


def _check_finite(split: StoreSplit, first: int, mel: np.ndarray) -> None:
    bits = _bits(mel)
    if mel.size and int((bits & 0x7FFF).max()) >= NOT_FINITE:
        window = int(np.flatnonzero(((bits & 0x7FFF) >= NOT_FINITE).any(axis=1))[0])
        window += int(split.recording_offsets[first])
        row = int(np.searchsorted(split.recording_offsets, window, side="right")) - 1
        raise InputError(f"{_place(split, row)} holds NaN or infinite values. {REBUILD}")


def _checked_sums(split: StoreSplit, first: int, last: int, mel: np.ndarray) -> list[int]:
    """CRC-32 of recordings [first, last), compared with those that the store keeps."""
    bits = _bits(mel)
    sums = []
    for row, (low, high) in enumerate(_bounds(split, first, last), first):
        dead = split.has_dead_windows[row]
        stored = _bits(split.read_stored(row)) if dead else bits[low:high]
        sums.append(zlib.crc32(stored.data))
    if split.checksums is not None:
        wrong = np.flatnonzero(sums != split.checksums[first:last])
        if wrong.size:
            raise InputError(
                f"{_place(split, first + int(wrong[0]))} is damaged: its mel is not what was "
                f"written (checksum). {REBUILD}"
            )
    return sums


def _uncomputed(split: StoreSplit, first: int, last: int, mel: np.ndarray) -> list[int]:
    """Recordings with a constant mel, which AILH writes where it cannot read the audio.

    A store of leakdet never has them: constant mel is that of a silent recording there.
    """
    if not is_ailh(split.files[0].parent):
        return []
    return [
        row
        for row, (low, high) in enumerate(_bounds(split, first, last), first)
        if mel[low].min() == mel[low].max() and mel[low:high].min() == mel[low:high].max()
    ]


def _bounds(split: StoreSplit, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Windows [low, high) of recordings [first, last), counted from the first one's."""
    offsets = split.recording_offsets[first : last + 1] - split.recording_offsets[first]
    return pairwise(offsets.tolist())


def _refuse_uncomputed(split: StoreSplit, rows: Sequence[int]) -> None:
    if rows:
        raise InputError(
            f"{split.files[0].parent}: {len(rows)} of {split.recordings} recordings of "
            f"{split.name} have a constant mel, because AILH could not read their audio: "
            f"{listed(split, rows)}. {convert_command(split)} leaves them out."
        )


def _place(split: StoreSplit, row: int) -> str:
    path, _ = file_rows(split)[row]  # a view's recordings lie in the files of several splits
    return f"{path}: recording {split.recording_ids[row]}"
