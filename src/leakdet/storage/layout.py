"""Layout checks of a store's file: data sets and attributes, their types, shapes and values."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from jaxtyping import Int64

from leakdet.config import SignalConfig
from leakdet.errors import InputError
from leakdet.storage.hdf5 import REBUILD

SOURCE_FILE = "source_file"  # the group of the channels of one file, where each is a recording
NEEDED = ("mel", "recording_offsets", "label_id", "recording_id")
ATTRIBUTES = ("signal", "label_names", "leak_label")
# one value per recording; only those in NEEDED must exist
COLUMNS = (
    "recording_id label_id content_sha256 path flags weight mel_crc32 duration_s source_rate_hz "
    "rms_dbfs dc_offset clipped_fraction mains_hum_50_db mains_hum_60_db surrogate_of channel"
).split()


def check_layout(path: Path, file: h5py.File) -> None:
    """Check that all data sets and attributes exist, with the right type and shape.

    Raises:
        InputError: one does not; says what there is and what is allowed.
    """
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
    if "leak_labels" not in file.attrs:  # a store of version 0.1.0 has one
        return signal, names, [str(file.attrs["leak_label"])]
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
    """Check offsets against windows, label ids against names, window shape against the signal.

    Raises:
        InputError: they disagree; names the recording, where it is one.
    """
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
