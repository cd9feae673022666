"""A split of a store: HDF5 files of log-mel, one or more per split. `SplitWriter` writes them.

Layout (schema_version 1): `mel` [W, S, M, T] float16 has the windows of all recordings in order,
`recording_offsets` [R + 1] their bounds; `live` [W] bool, which copies of AILH stores lack, says
which windows hold sound; all else has one row per recording. Mel is mapped where it is contiguous.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from jaxtyping import Bool, Float16, Int, Int64, Shaped

from leakdet.config import SignalConfig
from leakdet.core.errors import InputError
from leakdet.core.locations import Span
from leakdet.detection.labels import LabelView
from leakdet.storage.hdf5 import REBUILD, open_h5
from leakdet.storage.mel_array import MelArray, MelPart
from leakdet.tables.schema import SPAN

NEEDED = ("mel", "recording_offsets", "label_id", "recording_id")
ATTRIBUTES = ("signal", "label_names", "leak_labels")
# one value per recording; only those in NEEDED must exist
COLUMNS = (
    "recording_id label_id content_sha256 path flags weight mel_crc32 duration_s source_rate_hz "
    "rms_dbfs dc_offset clipped_fraction mains_hum_50_db mains_hum_60_db channel start_s end_s"
).split()


def check_layout(path: Path, file: h5py.File) -> None:
    """Check that all data sets and attributes exist, with the right type and shape."""
    lacking = [name for name in NEEDED if not isinstance(file.get(name), h5py.Dataset)]
    lacking += [f"the attribute {name}" for name in ATTRIBUTES if name not in file.attrs]
    if lacking:
        existing = ", ".join([*sorted(file), *sorted(file.attrs)]) or "nothing"
        raise InputError(f"{path}: lacks {', '.join(lacking)}; it has {existing}. {REBUILD}")
    mel, offsets, labels = file["mel"], file["recording_offsets"], file["label_id"]
    # its bytes are read as they are: any other type would be read as noise
    mel_ok = mel.dtype == np.float16 and mel.ndim == 4
    _require(path, mel, mel_ok, "float16 [windows, segments, mels, frames]")
    offsets_ok = offsets.dtype.kind in "iu" and offsets.ndim == 1 and len(offsets) > 0
    _require(path, offsets, offsets_ok, "whole numbers [recordings + 1]")
    _require(path, labels, labels.dtype.kind in "iu", "whole numbers [recordings]")
    names_ok = h5py.check_string_dtype(file["recording_id"].dtype) is not None
    _require(path, file["recording_id"], names_ok, "texts [recordings]")
    if "live" in file:
        live_ok = file["live"].dtype == bool and file["live"].shape == mel.shape[:1]
        _require(path, file["live"], live_ok, f"bool [{mel.shape[0]}], one value for each window")
    for name, column in _columns(file):
        if column.shape != (len(offsets) - 1,):
            raise InputError(
                f"{path}: {name} is {list(column.shape)}, recording_offsets count "
                f"{len(offsets) - 1} recordings; allowed is one value for each. {REBUILD}"
            )


def _require(path: Path, dataset: h5py.Dataset, ok: bool, allowed: str) -> None:
    if not ok:
        name = dataset.name.lstrip("/")
        raise InputError(
            f"{path}: {name} is {dataset.dtype} {list(dataset.shape)}; allowed is {allowed}. "
            f"{REBUILD}"
        )


def _columns(file: h5py.File) -> Iterator[tuple[str, h5py.Dataset]]:
    yield from ((name, file[name]) for name in COLUMNS if name in file)
    yield from ((f"group/{name}", column) for name, column in file.get("group", {}).items())


def read_attributes(path: Path, file: h5py.File) -> tuple[SignalConfig, list[str], list[str]]:
    """Signal settings, label names and leak labels. Raises `InputError` where they are damaged."""
    signal = SignalConfig.from_dict(_json(path, file, "signal", dict), str(path))
    names = [str(name) for name in _json(path, file, "label_names", list)]
    return signal, names, [str(name) for name in _json(path, file, "leak_labels", list)]


def _json(path: Path, file: h5py.File, name: str, kind: type) -> Any:
    try:
        value = json.loads(file.attrs[name])
    except (TypeError, ValueError):
        value = None
    if not isinstance(value, kind):
        what = "object" if kind is dict else "list"
        raise InputError(
            f"{path}: its attribute {name} is {file.attrs[name]!r}; allowed is a JSON {what}. "
            f"{REBUILD}"
        )
    return value


def check_values(
    path: Path,
    file: h5py.File,
    offsets: Int64[np.ndarray, " offsets"],
    label_id: Int64[np.ndarray, " R"],
    label_names: list[str],
    signal: SignalConfig,
) -> None:
    """Check offsets against windows, label ids against names, window shape against the signal."""
    windows, shape = file["mel"].shape[0], file["mel"].shape[1:]
    empty = np.flatnonzero(np.diff(offsets) < 1)
    if empty.size or offsets[0] != 0 or offsets[-1] != windows:
        where = f"recording {_id(file, int(empty[0]))}" if empty.size else "all recordings together"
        low, high = offsets[empty[0] : empty[0] + 2] if empty.size else (offsets[0], offsets[-1])
        raise InputError(
            f"{path}: recording_offsets must rise from 0 to the {windows} windows of mel; for "
            f"{where} they go from {low} to {high}. {REBUILD}"
        )
    if shape != signal.mel_shape:
        raise InputError(
            f"{path}: mel is {shape} a window, its signal settings give {signal.mel_shape}. "
            f"{REBUILD}"
        )
    bad = np.flatnonzero((label_id < 0) | (label_id >= len(label_names)))
    if bad.size:
        raise InputError(
            f"{path}: label_id {label_id[bad[0]]} of recording {_id(file, int(bad[0]))} is not in "
            f"the vocabulary {label_names}; allowed is 0 to {len(label_names) - 1}. {REBUILD}"
        )


def _id(file: h5py.File, row: int) -> str:
    return str(file["recording_id"].asstr()[row])


@dataclass(frozen=True)
class StoreIdentity:
    """The files of a store as they were: device, number, size and time of change of each."""

    store: Path
    files: dict[str, tuple[int, int, int, int]]

    @classmethod
    def of(cls, store: Path) -> "StoreIdentity":
        files = {}
        for path in sorted(store.glob("*.[hH]5")):
            status = path.stat()
            facts = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
            files[path.name] = facts
        return cls(store, files)

    def check(self, kept: str) -> None:
        """Raise `InputError` where the files are others now; `kept` says what is safe."""
        now = StoreIdentity.of(self.store).files
        if now == self.files:
            return
        names = sorted({*now, *self.files})
        changed = [name for name in names if now.get(name) != self.files.get(name)]
        raise InputError(
            f"{self.store}: the store was rebuilt, changed or removed while it was used "
            f"({', '.join(changed)}), so its recordings cannot be scored. {kept}"
        )


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
        """Windows [start, stop), in new memory or in `out`."""
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
        return np.concatenate([self._read_texts(path, dataset) for path in self.files])

    def numbers(self, dataset: str, default: float) -> Shaped[np.ndarray, " R"]:
        """A numeric data set over all files; `default` in those that lack it."""
        parts, is_known = [], False
        for path in self.files:
            with open_h5(path) as file:
                is_known |= dataset in file
                stored = file.get(dataset, np.full(len(file.get("label_id", ())), default))
                parts.append(np.asarray(stored[...]))
        return np.concatenate(parts) if is_known else np.full(self.recordings, default)

    def spans(self) -> list[Span | None]:
        """The seconds of its file that each recording is; None: the whole file."""
        bounds = zip(*(self.numbers(name, 0.0).tolist() for name in SPAN), strict=True)
        return [Span(a, b) if 0 <= a < b < math.inf else None for a, b in bounds]

    @staticmethod
    def _read_texts(path: Path, dataset: str) -> np.ndarray:
        with open_h5(path) as file:
            if lacks_group(file, dataset):
                return np.full(len(file["label_id"]), "", object)
            if values := file.get(dataset):
                return np.asarray(values.asstr()[...])
        raise KeyError(dataset)


def lacks_group(file: h5py.File, dataset: str) -> bool:
    """True if `dataset` is a group column that only other files of the store have."""
    return dataset.startswith(GROUP) and dataset not in file


def split_files(store: Path, name: str) -> list[Path]:
    """The files of a split, `train.h5` or all of `train-00000-of-00008.h5`; empty without any."""
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
    """Open a split of a store that leakdet built: all of its files, or `files`."""
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
            columns=[name for name in COLUMNS if name in file and name not in SPAN],
        )
