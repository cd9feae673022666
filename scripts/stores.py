"""Noise for the benchmarks: sounds, stores in leakdet's layout and in that of AILH."""

import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import h5py
import numpy as np
import soundfile

from leakdet.config import SignalConfig
from leakdet.storage.writer import RecordingRow, SplitWriter

FIELD = SignalConfig(fmax_hz=8000)


def write_sounds(
    folder: Path,
    durations_s: Sequence[float],
    rate_hz: int = 16000,
    suffix: str = "wav",
    smooth: int = 1,
) -> list[Path]:
    """Mono 16-bit files in folders LEAK and NORMAL, smoothed over so many sample points."""
    rng = np.random.default_rng(0)
    paths = []
    for number, seconds in enumerate(durations_s):
        noise = 0.1 * rng.standard_normal(int(rate_hz * seconds))
        sound = np.convolve(noise, np.ones(smooth) / smooth, "same")
        path = folder / ("LEAK" if number % 2 else "NORMAL") / f"{number:04d}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, sound, rate_hz, subtype="PCM_16")
        paths.append(path)
    return paths


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
