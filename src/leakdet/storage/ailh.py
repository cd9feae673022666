"""Reading the three HDF5 files of AILH in place, as splits like those of leakdet's own stores."""

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from leakdet.config import SignalConfig
from leakdet.core.errors import InputError, SettingsError
from leakdet.storage.hdf5 import open_h5
from leakdet.storage.mel_array import MelArray, MelPart
from leakdet.storage.store import StoreSplit

FILES = {
    "train": "TRAINING_DATASET.H5",
    "val": "VALIDATION_DATASET.H5",
    "test": "TESTING_DATASET.H5",
}


def is_ailh(store: Path) -> bool:
    """True if a folder holds files of AILH."""
    return any((store / file).exists() for file in FILES.values())


def open_ailh_split(store: Path, name: str) -> StoreSplit:
    """Open a split, of which each row of `segments_mel` is a recording of `long` windows."""
    path = store / FILES[name]
    with open_h5(path) as file:
        mel = _mel_part(path, file)
        names = _label_names(path, file)
        label_id = _label_ids(path, file["labels"][...], names)
        signal, unknown = _signal(path, file, mel)
    recordings = mel.stored_shape[0]
    if len(label_id) != recordings:
        raise InputError(f"{path}: {recordings} recordings but {len(label_id)} labels.")
    windows = mel.shape[0] // recordings if recordings else 0
    return StoreSplit(
        name=name,
        files=[path],
        mel=MelArray([mel]),
        recording_offsets=np.arange(recordings + 1, dtype=np.int64) * windows,
        label_id=label_id,
        label_names=names,
        leak_labels=[],
        signal=signal,
        signal_unknown=unknown,
    )


def _mel_part(path: Path, file: h5py.File) -> MelPart:
    """`segments_mel`, [files, long, short, mels, frames], or with an axis of 1 before the mels."""
    if "segments_mel" not in file or "labels" not in file:
        raise InputError(f"{path}: lacks segments_mel or labels; found {sorted(file)}.")
    dataset = file["segments_mel"]
    shape = dataset.shape
    if len(shape) == 6 and shape[3] == 1:
        files, long, short, _, mels, frames = shape
    elif len(shape) == 5:
        files, long, short, mels, frames = shape
    else:
        raise InputError(
            f"{path}: segments_mel is {shape}; allowed are 5 axes, or 6 of which the fourth is 1."
        )
    if dataset.dtype != np.float16:
        raise InputError(f"{path}: segments_mel is {dataset.dtype}; allowed is float16.")
    return MelPart.of(path, dataset, (files * long, short, mels, frames))


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _attribute(path: Path, file: h5py.File, name: str) -> Any:
    try:
        return json.loads(_text(file.attrs[name]))
    except ValueError as error:
        raise InputError(f"{path}: its attribute {name} is not JSON ({error}).") from error


def _label_names(path: Path, file: h5py.File) -> list[str]:
    if "labels_json" in file.attrs:
        return [str(name) for name in _attribute(path, file, "labels_json")]
    if "label2id_json" in file.attrs:
        ids = _attribute(path, file, "label2id_json")
        return sorted(ids, key=lambda name: int(ids[name]))
    raise InputError(
        f"{path}: has neither labels_json nor label2id_json, so its class numbers have no names."
    )


def _label_ids(path: Path, stored: np.ndarray, names: list[str]) -> np.ndarray:
    """Class ids from numbers or texts. Raises `InputError` on values outside the vocabulary."""
    if stored.dtype.kind in "iub":
        ids = stored.astype(np.int64)
    else:
        lookup = {name.casefold(): index for index, name in enumerate(names)}
        ids = np.array([lookup.get(_text(value).casefold(), -1) for value in stored], np.int64)
    bad = (ids < 0) | (ids >= len(names))
    if bad.any():
        found = sorted({_text(value) for value in stored[bad]})
        raise InputError(f"{path}: labels {found} are not in its vocabulary {names}.")
    return ids


def _signal(path: Path, file: h5py.File, mel: MelPart) -> tuple[SignalConfig | None, str | None]:
    """Settings that give this mel from audio, or None and why they are unknown."""
    if "config_json" not in file.attrs:
        return None, f"{path.name} has no config_json"
    config = _attribute(path, file, "config_json")
    try:
        rate, window, segment = (
            int(config[key]) for key in ("sample_rate", "long_window", "short_window")
        )
        samples = int(rate * float(config["duration_sec"]))
        n_fft = int(config.get("n_fft", segment))
        long, (short, mels, frames) = mel.shape[0] // max(1, mel.stored_shape[0]), mel.shape[1:]
        if float(config.get("power", 1.0)) != 1.0 or config.get("center", False):
            return (
                None,
                f"{path.name} was made with power or centring that leakdet's mel does not have",
            )
        signal = SignalConfig(
            sample_rate_hz=rate,
            window_samples=window,
            window_hop_samples=_hop(samples, window, long),
            segment_samples=segment,
            segment_hop_samples=_hop(window, segment, short),
            n_fft=0 if n_fft == segment else n_fft,
            frame_hop_samples=0 if frames == 1 else int(config["hop_length"]),
            n_mels=int(config.get("n_mels", mels)),
            fmin_hz=float(config.get("fmin", 0.0)),
            fmax_hz=float(config.get("fmax", None) or rate / 2),
            floor=1e-10,
        )
    except (KeyError, ValueError, TypeError, SettingsError) as error:
        return None, f"{path.name}: its config_json does not describe its mel ({error!r})"
    if signal.mel_shape != mel.shape[1:]:
        return (
            None,
            f"{path.name}: its config_json gives {signal.mel_shape} a window, "
            f"the file has {mel.shape[1:]}",
        )
    return signal, None


def _hop(samples: int, window: int, count: int) -> int:
    """The hop, none or half overlap, that cuts `samples` into `count` windows."""
    for hop in (window, window // 2):
        if hop and 1 + (samples - window) // hop == count:
            return hop
    raise ValueError(
        f"{count} windows of {window} in {samples} samples fit neither no overlap nor half"
    )
