"""A split of a store: HDF5 files of log-mel, one or more per split. `SplitWriter` writes them.

Layout (schema_version 1): `mel` [W, S, M, T] float16 has the windows of all recordings in order,
`recording_offsets` [R + 1] their bounds; `live` [W] bool, which older stores lack, says which
windows hold sound; all else has one row per recording. Mel is mapped where it is contiguous.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import h5py
import numpy as np
from jaxtyping import Bool, Float16, Int, Int64, Shaped

from leakdet.config import SignalConfig
from leakdet.detection.label_view import LabelView
from leakdet.errors import InputError
from leakdet.storage.hdf5 import open_h5
from leakdet.storage.layout import COLUMNS, check_layout, check_values, read_attributes
from leakdet.storage.mel_array import MelArray, MelPart

SCHEMA_VERSION = 1
SPLITS = ("train", "val", "test")
GROUP = "group/"  # before the name of a group column: its data set


def offsets_of(counts: Sequence[int] | Int[np.ndarray, " R"]) -> Int64[np.ndarray, " offsets"]:
    """Bounds [R + 1] of consecutive pieces of these R sizes."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)


@dataclass
class StoreSplit:
    """One split of a store, in one or more files. Pickling sends paths, not arrays of mel."""

    name: str
    files: list[Path]
    mel: MelArray
    recording_offsets: Int64[np.ndarray, " offsets"]  # [R + 1]
    label_id: Int64[np.ndarray, " R"]
    label_names: list[str]
    leak_labels: list[str]  # those of `label_names` that mean a leak; [] where the store says none
    signal: SignalConfig | None
    signal_unknown: str | None = None  # why `signal` is None
    without_sound: list[str] = field(default_factory=list)  # recordings left out: no live window
    label_view: LabelView | None = None  # None: the labels are those of the files

    @property
    def recordings(self) -> int:
        return len(self.label_id)

    @property
    def windows(self) -> int:
        return int(self.recording_offsets[-1])

    @property
    def windows_per_recording(self) -> Int64[np.ndarray, " R"]:
        return np.diff(self.recording_offsets)

    @property
    def is_leak(self) -> Bool[np.ndarray, " R"]:
        """True for each recording whose label means a leak."""
        leaks = [i for i, name in enumerate(self.label_names) if name in self.leak_labels]
        return np.isin(self.label_id, leaks)

    @property
    def stored_windows(self) -> Int64[np.ndarray, " R"]:
        """Windows that the store has of each recording, dead ones too."""
        return self.windows_per_recording

    @cached_property
    def has_dead_windows(self) -> Bool[np.ndarray, " R"]:
        """Mask of the recordings of which dead windows are left out here."""
        return np.asarray(self.stored_windows > self.windows_per_recording)

    @property
    def window_numbers(self) -> Int64[np.ndarray, " W"]:
        """Place of each window among the stored windows of its recording, from 0."""
        starts = np.repeat(self.recording_offsets[:-1], self.windows_per_recording)
        return np.asarray(np.arange(self.windows) - starts)

    def read_stored(self, row: int) -> Float16[np.ndarray, "W S M T"]:
        """All stored windows of a recording, dead ones too."""
        return self.mel.read(*self.recording_offsets[row : row + 2].tolist())

    @cached_property
    def live(self) -> Bool[np.ndarray, " W"] | None:
        """Mask of the windows that hold sound; None where no file of the split says it."""
        masks, known = [], False
        for path, count in zip(self.files, np.diff(self.mel.starts).tolist(), strict=True):
            with open_h5(path) as file:
                known |= "live" in file
                masks.append(file["live"][...] if "live" in file else np.ones(count, bool))
        return np.concatenate(masks) if known else None

    def read(
        self, start: int, stop: int, out: Float16[np.ndarray, "W S M T"] | None = None
    ) -> Float16[np.ndarray, "W S M T"]:
        """Windows [start, stop), in new memory or in `out`.

        Raises:
            InputError: a recording cannot be read; it is named.
        """
        try:
            return self.mel.read(start, stop, out)
        except InputError:
            first = int(np.searchsorted(self.recording_offsets, start, side="right")) - 1
            last = int(np.searchsorted(self.recording_offsets, stop))
            for row in range(first, last):
                try:
                    self.mel.read(*self.recording_offsets[row : row + 2].tolist())
                except InputError as error:
                    name = self.recording_ids[row]
                    raise InputError(f"recording {name} ({self.name}): {error}") from error
            raise

    @cached_property
    def recording_ids(self) -> Shaped[np.ndarray, " R"]:
        """Names of the recordings, str. AILH keeps none: `<file stem>#<row>`."""
        if self._is_ailh:
            return np.array([f"{self.files[0].stem}#{row}" for row in range(self.recordings)])
        return self.texts("recording_id")

    @cached_property
    def groups(self) -> dict[str, Shaped[np.ndarray, " R"]]:
        """Values of each group column, str; "" in files that lack it. AILH keeps none."""
        columns: set[str] = set()
        for path in [] if self._is_ailh else self.files:
            with open_h5(path) as file:
                columns |= set(file.get("group", {}))
        return {column: self.texts(f"{GROUP}{column}") for column in sorted(columns)}

    @property
    def _is_ailh(self) -> bool:
        return not self.has("recording_id")

    @cached_property
    def checksums(self) -> Shaped[np.ndarray, " R"] | None:
        """CRC-32 of each recording's mel as it was written; None where the store has none."""
        return self.numbers("mel_crc32", 0.0) if self.has("mel_crc32") else None

    def has(self, dataset: str) -> bool:
        """True if the split has this data set."""
        with open_h5(self.files[0]) as file:
            return dataset in file

    def texts(self, dataset: str) -> Shaped[np.ndarray, " R"]:
        """A text data set over all files, str. Raises `KeyError` where there is none."""
        return np.concatenate([self._read(path, dataset, text=True) for path in self.files])

    def numbers(self, dataset: str, default: float) -> Shaped[np.ndarray, " R"]:
        """A numeric data set over all files; `default` where there is none."""
        if not self.has(dataset):
            return np.full(self.recordings, default)
        return np.concatenate([self._read(path, dataset, text=False) for path in self.files])

    @staticmethod
    def _read(path: Path, dataset: str, text: bool) -> np.ndarray:
        with open_h5(path) as file:
            if lacks_group(file, dataset):
                return np.full(len(file["label_id"]), "", object)
            if values := file.get(dataset):
                return np.asarray(values.asstr()[...] if text else values[...])
        raise KeyError(dataset)


def lacks_group(file: h5py.File, dataset: str) -> bool:
    """True if `dataset` is a group column that only other files of the store have."""
    return dataset.startswith(GROUP) and dataset not in file


def split_files(store: Path, name: str) -> list[Path]:
    """The files of a split, `train.h5` or all of `train-00000-of-00008.h5`; empty without any.

    Raises:
        InputError: both kinds are there, or shards are missing.
    """
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
                f"{store}: has {len(shards)} of {expected} {name} shards; copy or build the others."
            )
        return shards
    return [single] if single.exists() else []


def open_leakdet_split(store: Path, name: str, files: list[Path] | None = None) -> StoreSplit:
    """Open a split of a store that leakdet built: all of its files, or `files`.

    Raises:
        InputError: a file is missing, damaged, of another schema, or disagrees with the others.
    """
    files = files or split_files(store, name)
    if not files:
        raise InputError(f"{store}: there is no {name}.h5. Build it with a share for {name}.")
    parts = [_open_part(path) for path in files]
    first = parts[0]
    for path, part in zip(files, parts, strict=True):
        for what in ("signal", "label_names", "leak_labels", "columns"):
            if getattr(part, what) != getattr(first, what):
                raise InputError(
                    f"{path}: differs from {files[0].name} in {what}; shards of one split must "
                    "agree. Build the store again, every shard from the same source and settings."
                )
    counts = np.concatenate([np.diff(part.offsets) for part in parts])
    return StoreSplit(
        name=name,
        files=files,
        mel=MelArray([part.mel for part in parts]),
        recording_offsets=offsets_of(counts.tolist()),
        label_id=np.concatenate([part.label_id for part in parts]),
        label_names=first.label_names,
        leak_labels=first.leak_labels,
        signal=first.signal,
    )


@dataclass
class _Part:
    mel: MelPart
    offsets: np.ndarray
    label_id: np.ndarray
    label_names: list[str]
    leak_labels: list[str]
    signal: SignalConfig
    columns: list[str]


def _open_part(path: Path) -> _Part:
    with open_h5(path) as file:
        version = file.attrs.get("schema_version")
        if version != SCHEMA_VERSION:
            raise InputError(
                f"{path}: its schema_version is {version}, this leakdet reads {SCHEMA_VERSION}. "
                "Build the store again, or read it with the leakdet that wrote it."
            )
        check_layout(path, file)
        signal, label_names, leak_labels = read_attributes(path, file)
        offsets, label_id = (
            file[name][...].astype(np.int64) for name in ("recording_offsets", "label_id")
        )
        check_values(path, file, offsets, label_id, label_names, signal)
        return _Part(
            mel=MelPart.of(path, file["mel"]),
            offsets=offsets,
            label_id=label_id,
            label_names=label_names,
            leak_labels=leak_labels,
            signal=signal,
            columns=[name for name in COLUMNS if name in file and name != "surrogate_of"],
        )
