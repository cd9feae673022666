"""Speed of `build` against real time and a plain librosa loop, and its memory.

`python scripts/bench_build.py [speed] [memory]`; writes its sections of docs/benchmarks.md.
"""

import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch

from benchmarks import measured, run_sections, write_section
from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.windows import MelStream
from leakdet.building.builder import build_store
from leakdet.config import BuildConfig, SignalConfig

RECORDINGS = 200
SIGNAL = SignalConfig(fmax_hz=8000)
NOTE = """Seconds of sound per second of one core, files in the page cache, best of seven in turn.
`extraction` is decoding, statistics, content hash and log-mel of every window; `build` adds reading
headers, splitting and writing the store (verify=off). The librosa loop computes the same mel of the
same files in the obvious way: `librosa.load`, then `librosa.feature.melspectrogram` per window,
which makes its filters anew each time; `tuned` makes them once and calls `librosa.stft`."""

BUILD = """
import sys
from leakdet.building.builder import build_store
from leakdet.config import BuildConfig
build_store(BuildConfig(source=sys.argv[1], out=sys.argv[2]))
"""


def write_sounds(
    folder: Path, rate_hz: int, suffix: str, durations_s: Sequence[float]
) -> list[Path]:
    rng = np.random.default_rng(0)
    paths = []
    for number, seconds in enumerate(durations_s):
        sound = 0.1 * np.convolve(
            rng.standard_normal(int(rate_hz * seconds)), np.ones(8) / 8, "same"
        )
        path = folder / ("LEAK" if number % 2 else "NORMAL") / f"{number:04d}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, sound, rate_hz, subtype="PCM_16")
        paths.append(path)
    return paths


def extract(paths: list[Path]) -> float:
    """Seconds for all files."""
    log_mel = LogMel(SIGNAL)
    began = time.perf_counter()
    for path in paths:
        for _ in MelStream(path, log_mel):
            pass
    return time.perf_counter() - began


def build(folder: Path) -> float:
    with tempfile.TemporaryDirectory() as out:
        began = time.perf_counter()
        build_store(BuildConfig(source=str(folder), out=f"{out}/store", workers=1, verify="off"))
        return time.perf_counter() - began


FILTERS: dict[str, Any] = {"n_mels": 64, "fmin": 300.0, "fmax": 8000.0, "htk": True, "norm": None}
FRAMES: dict[str, Any] = {"n_fft": 1024, "hop_length": 512, "window": "hann", "center": False}


def librosa_loop(paths: list[Path], tuned: bool) -> float:
    """Seconds for all files; the mel of the first is compared with ours first."""
    import librosa

    filters = librosa.filters.mel(sr=16000, n_fft=1024, dtype=np.float32, **FILTERS)

    def amplitudes(window: np.ndarray) -> np.ndarray:
        if tuned:
            return np.asarray(filters @ np.abs(librosa.stft(window, **FRAMES)))
        mel = librosa.feature.melspectrogram(y=window, sr=16000, power=1.0, **FRAMES, **FILTERS)
        return np.asarray(mel)

    def mel_of(path: Path) -> np.ndarray:
        sound, _ = librosa.load(path, sr=16000)
        windows = [sound[start : start + 16000] for start in range(0, len(sound) - 16000 + 1, 8000)]
        decibels = [
            librosa.amplitude_to_db(amplitudes(w), ref=1.0, amin=1e-5, top_db=None) for w in windows
        ]
        return np.stack(decibels).transpose(0, 2, 1)[..., None]

    ours = torch.cat([block.mel for block in MelStream(paths[0], LogMel(SIGNAL))]).float().numpy()
    theirs = mel_of(paths[0])
    if np.abs(ours[: len(theirs)] - theirs).max() > 0.1:  # float16 has steps of 0.06 dB at 100 dB
        raise SystemExit("the librosa loop gives another mel: the comparison would mean nothing")
    began = time.perf_counter()
    for path in paths:
        mel_of(path)
    return time.perf_counter() - began


def speed() -> None:
    """Speed on one core; the others are given back before the next section."""
    cores, threads = os.sched_getaffinity(0), torch.get_num_threads()
    os.sched_setaffinity(0, {min(cores)})
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for name, rate_hz, suffix in (("16 kHz WAV", 16000, "wav"), ("48 kHz FLAC", 48000, "flac")):
        with tempfile.TemporaryDirectory() as folder:
            paths = write_sounds(Path(folder), rate_hz, suffix, [10.0] * RECORDINGS)
            extract(paths[:5])
            sound_s = 10.0 * len(paths)
            rounds = [
                (
                    extract(paths),
                    build(Path(folder)),
                    librosa_loop(paths, False),
                    librosa_loop(paths, True),
                )
                for _ in range(7)
            ]
            extracted, built, plain, tuned = (min(times) for times in zip(*rounds, strict=True))
            rows.append(
                {
                    "source": name,
                    "extraction, × real time": sound_s / extracted,
                    "build, × real time": sound_s / built,
                    "librosa loop, × real time": sound_s / plain,
                    "extraction / librosa loop": plain / extracted,
                    "tuned librosa loop, × real time": sound_s / tuned,
                    "extraction / tuned": tuned / extracted,
                }
            )
            print(rows[-1], flush=True)
    write_section("build", "Building a store", rows, NOTE)
    os.sched_setaffinity(0, cores)
    torch.set_num_threads(threads)


def memory() -> None:
    """Peak memory, which must depend neither on the number of recordings nor on their length."""
    rows: list[dict[str, Any]] = []
    for title, durations_s in (
        ("10 of 10 s", [10.0] * 10),
        ("3,000 of 10 s", [10.0] * 3000),
        ("10 of 10 s and one of an hour", [10.0] * 10 + [3600.0]),
    ):
        peak = peak_mib(durations_s)
        numbers = sum(durations_s) * 2 * float(np.prod(SIGNAL.mel_shape))  # two windows a second
        first = rows[0]["peak [MiB]"] if rows else peak
        row = {"recordings": title, "their mel [MiB]": 2 * numbers / 2**20, "peak [MiB]": peak}
        rows.append(row | {"times": peak / first})
        print(rows[-1], flush=True)
    note = "Peak resident memory of the process, with verification of a sample, on all cores."
    write_section("build_memory", "Memory of a build", rows, note)


def peak_mib(durations_s: Sequence[float]) -> float:
    """Peak memory of a build of recordings of so many seconds, in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        write_sounds(Path(name) / "audio", 16000, "wav", durations_s)
        return measured(BUILD, ["audio", "store"], Path(name)).peak_mib


if __name__ == "__main__":
    run_sections({"speed": speed, "memory": memory})
