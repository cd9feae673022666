"""Is a file of a store laid out as it should be? Asked whenever one is opened; its mel is not read for it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from leakdet.config import SignalConfig
from leakdet.errors import InputError

AGAIN = "Build the store again, or copy it again from where it is whole."
NEEDED = ("mel", "recording_offsets", "label_id", "recording_id")
ATTRIBUTES = ("signal", "label_names", "leak_label")
# one row per recording; leakdet reads a store that lacks some of the latter
COLUMNS = (
    "recording_id label_id content_sha256 path flags weight mel_crc32 duration_s source_rate_hz rms_dbfs dc_offset "
    "clipped_fraction mains_hum_50_db mains_hum_60_db surrogate_of"
).split()


def check_layout(path: Path, file: h5py.File) -> None:
    """Are all data sets and attributes there, of the right kind, and as long as there are recordings?

    Raises:
        InputError: with what is there and what is allowed.
    """
    lacking = [name for name in NEEDED if not isinstance(file.get(name), h5py.Dataset)]
    lacking += [f"the attribute {name}" for name in ATTRIBUTES if name not in file.attrs]
    if lacking:
        there = ", ".join([*sorted(file), *sorted(file.attrs)]) or "nothing"
        raise InputError(f"{path}: lacks {', '.join(lacking)}; it has {there}. {AGAIN}")
    mel, offsets, labels = file["mel"], file["recording_offsets"], file["label_id"]
    # Its bytes are read as they lie: other numbers would be read as noise.
    _allow(
        path,
        mel,
        mel.dtype == np.float16 and mel.ndim == 4,
        "float16 [windows, segments, mels, frames]",
    )
    whole = offsets.dtype.kind in "iu" and offsets.ndim == 1 and len(offsets) > 0
    _allow(path, offsets, whole, "whole numbers [recordings + 1]")
    _allow(path, labels, labels.dtype.kind in "iu", "whole numbers [recordings]")
    named = h5py.check_string_dtype(file["recording_id"].dtype) is not None
    _allow(path, file["recording_id"], named, "texts [recordings]")
    for name, column in _columns(file):
        if column.shape != (len(offsets) - 1,):
            raise InputError(
                f"{path}: {name} is {list(column.shape)}, recording_offsets count {len(offsets) - 1} recordings; allowed is "
                f"one value for each. {AGAIN}"
            )


def _allow(path: Path, dataset: h5py.Dataset, right: bool, allowed: str) -> None:
    if not right:
        name = dataset.name.lstrip("/")
        raise InputError(
            f"{path}: {name} is {dataset.dtype} {list(dataset.shape)}; allowed is {allowed}. {AGAIN}"
        )


def _columns(file: h5py.File) -> Iterator[tuple[str, h5py.Dataset]]:
    yield from ((name, file[name]) for name in COLUMNS if name in file)
    yield from ((f"group/{name}", column) for name, column in file.get("group", {}).items())


def read_attributes(path: Path, file: h5py.File) -> tuple[SignalConfig, list[str], str]:
    """Signal settings, label names and the leak label."""
    signal = SignalConfig.from_dict(_json(path, file, "signal", dict), str(path))
    names = [str(name) for name in _json(path, file, "label_names", list)]
    return signal, names, str(file.attrs["leak_label"])


def _json(path: Path, file: h5py.File, name: str, kind: type) -> Any:
    try:
        found = json.loads(file.attrs[name])
    except (TypeError, ValueError):
        found = None
    if not isinstance(found, kind):
        what = "object" if kind is dict else "list"
        raise InputError(
            f"{path}: its attribute {name} is {file.attrs[name]!r}; allowed is a JSON {what}. {AGAIN}"
        )
    return found


def check_values(
    path: Path,
    file: h5py.File,
    offsets: np.ndarray,
    label_id: np.ndarray,
    label_names: list[str],
    signal: SignalConfig,
) -> None:
    """Do the offsets cut up the mel, do the labels have names, and are the windows of the signal's shape?

    Raises:
        InputError: with the recording's id, where it is one recording's fault.
    """
    windows, shape = file["mel"].shape[0], file["mel"].shape[1:]
    empty = np.flatnonzero(np.diff(offsets) < 1)
    if empty.size or offsets[0] != 0 or offsets[-1] != windows:
        where = f"recording {_id(file, int(empty[0]))}" if empty.size else "all recordings together"
        low, high = offsets[empty[0] : empty[0] + 2] if empty.size else (offsets[0], offsets[-1])
        raise InputError(
            f"{path}: recording_offsets must rise from 0 to the {windows} windows of mel; for {where} they go from {low} to "
            f"{high}. {AGAIN}"
        )
    if shape != signal.mel_shape:
        raise InputError(
            f"{path}: mel is {shape} a window, its signal settings give {signal.mel_shape}. {AGAIN}"
        )
    bad = np.flatnonzero((label_id < 0) | (label_id >= len(label_names)))
    if bad.size:
        raise InputError(
            f"{path}: label_id {label_id[bad[0]]} of recording {_id(file, int(bad[0]))} is not in the vocabulary {label_names}"
            f"; allowed is 0 to {len(label_names) - 1}. {AGAIN}"
        )


def _id(file: h5py.File, row: int) -> str:
    return str(file["recording_id"].asstr()[row])
