"""The store: HDF5 files of log-mel, flat and ragged, one or more per split. `store_writer` writes, `StoreSplit` reads.

Layout (schema_version 1): `mel` [W, S, M, T] float16 of all windows, recording after recording; `recording_offsets` [R + 1];
everything else has one row per recording. Arrays are memory-mapped where the file allows it, so that opening costs nothing.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import h5py
import numpy as np

from leakdet.config import SignalConfig
from leakdet.errors import InputError
from leakdet.storage.mel_array import MelArray, MelPart

SCHEMA_VERSION = 1
SPLITS = ("train", "val", "test")
GROUP = "group/"  # before the name of a group column: its data set


def offsets_of(counts: Sequence[int]) -> np.ndarray:
    """Bounds [R + 1] of consecutive pieces of these sizes."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)


@dataclass
class StoreSplit:
    """One split of a store, of one or more files, as arrays. Handles open lazily in each process and are not pickled."""

    name: str
    files: list[Path]
    mel: MelArray
    recording_offsets: np.ndarray  # int64 [R + 1]
    label_id: np.ndarray  # int64 [R]
    label_names: list[str]
    leak_label: str | None
    signal: SignalConfig | None
    signal_unknown: str | None = None  # why `signal` is None

    @property
    def recordings(self) -> int:
        return len(self.label_id)

    @property
    def windows(self) -> int:
        return int(self.recording_offsets[-1])

    @property
    def windows_per_recording(self) -> np.ndarray:
        return np.diff(self.recording_offsets)

    def read(self, start: int, stop: int, out: np.ndarray | None = None) -> np.ndarray:
        """Windows [start, stop) in memory of their own, or in `out`. `InputError` names the recording that cannot be read."""
        try:
            return self.mel.read(start, stop, out)
        except InputError:
            first = int(np.searchsorted(self.recording_offsets, start, side="right")) - 1
            last = int(np.searchsorted(self.recording_offsets, stop))
            for row in range(first, last):
                self._read_one(row)
            raise

    def _read_one(self, row: int) -> None:
        low, high = self.recording_offsets[row : row + 2].tolist()
        try:
            self.mel.read(low, high)
        except InputError as error:
            raise InputError(f"recording {self.recording_ids[row]} ({self.name}): {error}") from error

    @cached_property
    def recording_ids(self) -> np.ndarray:
        """Names of the recordings, [R] of str. A predecessor's file has none: `<file stem>#<row>`."""
        if self._legacy:
            return np.array([f"{self.files[0].stem}#{row}" for row in range(self.recordings)])
        return self.texts("recording_id")

    @cached_property
    def groups(self) -> dict[str, np.ndarray]:
        """Group column -> [R] of str, of all files; blank where one lacks it. Empty for a predecessor's store."""
        columns: set[str] = set()
        for path in [] if self._legacy else self.files:
            with open_h5(path) as file:
                columns |= set(file.get("group", {}))
        return {column: self.texts(f"{GROUP}{column}") for column in sorted(columns)}

    @property
    def _legacy(self) -> bool:
        return not self.has("recording_id")

    @cached_property
    def checksums(self) -> np.ndarray | None:
        """CRC-32 of each recording's mel as it was written, [R]; None where the store has none."""
        return self.numbers("mel_crc32", 0.0) if self.has("mel_crc32") else None

    def has(self, dataset: str) -> bool:
        with open_h5(self.files[0]) as file:
            return dataset in file

    def texts(self, dataset: str) -> np.ndarray:
        """A text data set over all files, [R] of str."""
        return np.concatenate([self._read(path, dataset, text=True) for path in self.files])

    def numbers(self, dataset: str, default: float) -> np.ndarray:
        """A numeric data set over all files, [R]; `default` where the files do not have it."""
        if not self.has(dataset):
            return np.full(self.recordings, default)
        return np.concatenate([self._read(path, dataset, text=False) for path in self.files])

    @staticmethod
    def _read(path: Path, dataset: str, text: bool) -> np.ndarray:
        with open_h5(path) as file:
            if lacks_group(file, dataset):
                return np.full(len(file["label_id"]), "", object)
            found = file[dataset]
            return np.asarray(found.asstr()[...] if text else found[...])


def lacks_group(file: h5py.File, dataset: str) -> bool:
    """A group column that only other files of the store have: this one's recordings belong to no group of it."""
    return dataset.startswith(GROUP) and dataset not in file


def open_h5(path: Path) -> h5py.File:
    """Open for reading; `InputError` names the file, which HDF5's own messages do not."""
    try:
        return h5py.File(
            path, "r", locking=False
        )  # readers need no lock, and network file systems may refuse one
    except OSError as error:
        raise InputError(f"{path}: cannot be read as HDF5 ({_reason(error)}). Build it again.") from error


def _reason(error: OSError) -> str:
    text = str(error)
    return "it is cut off" if "truncated" in text else text.splitlines()[0]


def split_files(store: Path, name: str) -> list[Path]:
    """The files of one split: `train.h5`, or all of `train-00000-of-00008.h5`. Empty where there is none."""
    single = store / f"{name}.h5"
    shards = sorted(store.glob(f"{name}-?????-of-?????.h5"))
    if single.exists() and shards:
        raise InputError(
            f"{store}: holds both {single.name} and {shards[0].name}; remove the one that is stale."
        )
    if shards:
        expected = int(shards[0].stem.rsplit("-", 1)[1])
        if len(shards) != expected:
            raise InputError(
                f"{store}: {len(shards)} of {expected} {name} shards are there; copy or build the others."
            )
        return shards
    return [single] if single.exists() else []


def open_split(store: Path, name: str, files: list[Path] | None = None) -> StoreSplit:
    """Open a split of leakdet's own format: all of its files, or those given.

    Raises:
        InputError: a file is missing, cut off, of another schema, or disagrees with the other shards.
    """
    files = files or split_files(store, name)
    if not files:
        raise InputError(
            f"{store}: there is no {name}.h5. Allowed are stores that `python -m leakdet.build` wrote."
        )
    parts = [_open_part(path) for path in files]
    first = parts[0]
    for path, part in zip(files, parts, strict=True):
        for what in ("signal", "label_names", "leak_label"):
            if getattr(part, what) != getattr(first, what):
                raise InputError(
                    f"{path}: its {what} differs from that of {files[0].name}; shards of one split must agree."
                )
    counts = np.concatenate([np.diff(part.offsets) for part in parts])
    return StoreSplit(
        name=name,
        files=files,
        mel=MelArray([part.mel for part in parts]),
        recording_offsets=offsets_of(counts.tolist()),
        label_id=np.concatenate([part.label_id for part in parts]).astype(np.int64),
        label_names=first.label_names,
        leak_label=first.leak_label,
        signal=first.signal,
    )


@dataclass
class _Part:
    mel: MelPart
    offsets: np.ndarray
    label_id: np.ndarray
    label_names: list[str]
    leak_label: str
    signal: SignalConfig


def _open_part(path: Path) -> _Part:
    with open_h5(path) as file:
        version = file.attrs.get("schema_version")
        if version != SCHEMA_VERSION:
            raise InputError(f"{path}: its schema_version is {version}, this leakdet reads {SCHEMA_VERSION}.")
        part = _Part(
            mel=MelPart.of(path, file["mel"]),
            offsets=file["recording_offsets"][...],
            label_id=file["label_id"][...],
            label_names=json.loads(file.attrs["label_names"]),
            leak_label=str(file.attrs["leak_label"]),
            signal=SignalConfig.from_dict(json.loads(file.attrs["signal"]), str(path)),
        )
    _check_part(path, part)
    return part


def _check_part(path: Path, part: _Part) -> None:
    offsets, windows = part.offsets, part.mel.shape[0]
    if offsets[0] != 0 or offsets[-1] != windows or (np.diff(offsets) < 1).any():
        raise InputError(
            f"{path}: recording_offsets must rise from 0 to the {windows} windows of mel; build the store again."
        )
    if part.mel.shape[1:] != part.signal.mel_shape:
        raise InputError(
            f"{path}: mel is {part.mel.shape[1:]} a window, its signal settings give {part.signal.mel_shape}."
        )
    bad = np.flatnonzero((part.label_id < 0) | (part.label_id >= len(part.label_names)))
    if bad.size:
        raise InputError(
            f"{path}: label_id {part.label_id[bad[0]]} of recording {bad[0]} is not in the vocabulary {part.label_names}."
        )
