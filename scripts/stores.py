"""Stores of noise-like mel for the benchmarks, in leakdet's layout and in that of AILH."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np

from leakdet.config import SignalConfig
from leakdet.storage.writer import RecordingRow, SplitWriter

FIELD = SignalConfig(fmax_hz=8000)


def write_store(folder: Path, recordings: int, windows: int, name: str = "train") -> None:
    """A split of noise-like mel: 2,000 recordings of 80 `field` windows are 614 MB."""
    writer = SplitWriter(folder, name, FIELD)
    for number, mel in enumerate(_recordings(recordings, windows)):
        row = RecordingRow(
            recording_id=f"{name}{number}",
            path=f"{name}{number}.wav",
            label="LEAK" if number % 2 else "NORMAL",
            groups={},
            weight=1.0,
            content_sha256=f"{name}{number}",
            duration_s=windows / 2,
            source_rate_hz=16000,
            rms_dbfs=-40.0,
            dc_offset=0.0,
            clipped_fraction=0.0,
            flags=[],
            windows=windows,
            mel_crc32=0,
        )
        writer.add(row, io.BytesIO(mel.tobytes()), None)
    writer.write(folder / f"{name}.h5", ["LEAK", "NORMAL"], "LEAK")


def write_ailh_store(folder: Path, recordings: int, windows: int) -> None:
    """The same windows in the layout of AILH."""
    with h5py.File(folder / "TRAINING_DATASET.H5", "w") as file:
        mel = file.create_dataset(
            "segments_mel", (recordings, windows, *FIELD.mel_shape), np.float16
        )
        for number, recording in enumerate(_recordings(recordings, windows)):
            mel[number] = recording
        file["labels"] = (np.arange(recordings) % 2).astype(np.int16)
        file.attrs["labels_json"] = json.dumps(["NOLEAK", "LEAK"])


def _recordings(count: int, windows: int) -> Iterator[np.ndarray]:
    mel = np.random.default_rng(0).normal(-60, 9, (windows, *FIELD.mel_shape)).astype(np.float16)
    return (np.roll(mel, number, axis=0) for number in range(count))
