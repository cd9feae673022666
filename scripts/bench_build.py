"""Speed of `build` against real time and a plain librosa loop, and its memory."""

import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import Row, Section, in_turn, measured, run, time_s
from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.windows import MelStream
from leakdet.building.builder import build_store
from leakdet.config import BuildConfig, SignalConfig
from stores import write_sounds

RECORDINGS = 200
SIGNAL = SignalConfig(fmax_hz=8000)
NOTE = """Seconds of sound per second of one core, files in the page cache, best of seven in turn.
`extraction` is decoding, statistics, content hash and log-mel of every window; `build` adds reading
headers, splitting and writing the store (verify=off). The librosa loop computes the same mel of the
same files in the obvious way: `librosa.load`, then `librosa.feature.melspectrogram` per window,
which makes its filters anew each time; `tuned` makes them once and calls `librosa.stft`."""
MEMORY_NOTE = "Peak resident memory of the process, with verification of a sample, on all cores."
BUILD = """
import sys
from leakdet.building.builder import build_store
from leakdet.config import BuildConfig
build_store(BuildConfig(source=sys.argv[1], out=sys.argv[2]))
"""


def loop(work: Callable[[Path], object], paths: Sequence[Path]) -> float:
    """Seconds for all files."""
    return time_s(lambda: deque(map(work, paths), maxlen=0))


def extract(log_mel: LogMel, path: Path) -> None:
    for _ in MelStream(path, log_mel):
        pass


def build(folder: Path) -> float:
    with tempfile.TemporaryDirectory() as out:
        config = BuildConfig(source=str(folder), out=f"{out}/store", workers=1, verify="off")
        return time_s(lambda: build_store(config))


FILTERS: dict[str, Any] = {"n_mels": 64, "fmin": 300.0, "fmax": 8000.0, "htk": True, "norm": None}
FRAMES: dict[str, Any] = {"n_fft": 1024, "hop_length": 512, "window": "hann", "center": False}


def librosa_mel(tuned: bool) -> Callable[[Path], np.ndarray]:
    """What computes the log-mel of a file in the obvious way, or with the filters made once."""
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

    return mel_of


def check_equal(path: Path, mel_of: Callable[[Path], np.ndarray]) -> None:
    ours = torch.cat([block.mel for block in MelStream(path, LogMel(SIGNAL))]).float().numpy()
    theirs = mel_of(path)
    if np.abs(ours[: len(theirs)] - theirs).max() > 0.1:  # float16 has steps of 0.06 dB at 100 dB
        raise SystemExit("the librosa loop gives another mel: the comparison would mean nothing")


def speed() -> Iterator[Row]:
    """Speed on one core; the others are given back before the next section."""
    cores, threads = os.sched_getaffinity(0), torch.get_num_threads()
    os.sched_setaffinity(0, {min(cores)})
    torch.set_num_threads(1)
    ours, plain, tuned = partial(extract, LogMel(SIGNAL)), librosa_mel(False), librosa_mel(True)
    for name, rate_hz, suffix in (("16 kHz WAV", 16000, "wav"), ("48 kHz FLAC", 48000, "flac")):
        with tempfile.TemporaryDirectory() as folder:
            paths = write_sounds(Path(folder), [10.0] * RECORDINGS, rate_hz, suffix, smooth=8)
            loop(ours, paths[:5])
            for mel_of in (plain, tuned):
                check_equal(paths[0], mel_of)
            works = {
                "extraction": partial(loop, ours, paths),
                "build": partial(build, Path(folder)),
                "librosa": partial(loop, plain, paths),
                "tuned": partial(loop, tuned, paths),
            }
            rates = {
                work: 10.0 * len(paths) / times.min() for work, times in in_turn(works, 7).items()
            }
        yield {
            "source": name,
            "extraction, × real time": rates["extraction"],
            "build, × real time": rates["build"],
            "librosa loop, × real time": rates["librosa"],
            "extraction / librosa loop": rates["extraction"] / rates["librosa"],
            "tuned librosa loop, × real time": rates["tuned"],
            "extraction / tuned": rates["extraction"] / rates["tuned"],
        }
    os.sched_setaffinity(0, cores)
    torch.set_num_threads(threads)


def memory() -> Iterator[Row]:
    """Peak memory, which must depend neither on the number of recordings nor on their length."""
    first = 0.0
    for title, durations_s in (
        ("10 of 10 s", [10.0] * 10),
        ("3,000 of 10 s", [10.0] * 3000),
        ("10 of 10 s and one of an hour", [10.0] * 10 + [3600.0]),
    ):
        with tempfile.TemporaryDirectory() as name:
            write_sounds(Path(name) / "audio", durations_s, smooth=8)
            peak = measured(BUILD, ["audio", "store"], Path(name)).peak_mib
        first = first or peak
        numbers = sum(durations_s) * 2 * float(np.prod(SIGNAL.mel_shape))  # two windows a second
        row = {"recordings": title, "their mel [MiB]": 2 * numbers / 2**20, "peak [MiB]": peak}
        yield row | {"times": peak / first}


if __name__ == "__main__":
    run(
        __doc__,
        Section("build", "Building a store", speed(), NOTE),
        Section("build_memory", "Memory of a build", memory(), MEMORY_NOTE),
    )
