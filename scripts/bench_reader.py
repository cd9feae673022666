"""Time what predict's reader does besides decoding: structure, dead sound, hash, levels, hum.

Each part is left out in turn, in one process and interleaved, and its CPU time is the difference.
"""

import hashlib
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import soundfile
import torch

from benchmarks import write_section
from leakdet.acoustics import audio
from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.windows import MelStream
from leakdet.config import NetworkConfig, SignalConfig
from leakdet.detection.networks import make_network

RATE_HZ, SECONDS = 16000, (2, 10, 60)
ROUNDS, ROUND_S = 31, 200  # rounds, and seconds of sound in each
NOTE = (
    f"CPU time on one thread of reading a mono 16-bit WAV file of {RATE_HZ / 1000:g} kHz, its log-mel "
    f"and the default network, medians of {ROUNDS} rounds. Checks of the file are the comparison of "
    "its header with its bytes, and the search for silence, dropouts and stuck values. The hash tells "
    "whether the model has met the sound; levels are peak, clipping and NaN."
)


class PlainFile(soundfile.SoundFile):  # type: ignore[misc]  # it has no types
    """libsndfile alone, as `SoundFile`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def flags(self) -> list[str]:
        """None."""
        return []


class Nothing:
    """In place of a hash, or of what looks for dead runs."""

    any = False

    def __init__(self, *_: Any) -> None: ...
    def add(self, *_: Any) -> None: ...
    def update(self, *_: Any) -> None: ...
    def dbfs(self) -> None: ...
    def prominences_db(self) -> None: ...
    def strongest_db(self) -> None: ...
    def hexdigest(self) -> str:
        """None."""
        return ""


def all_live(_: MelStream, chunk: Any) -> np.ndarray:
    """Every window is taken for live."""
    return np.ones(chunk.windows, bool)


CHECKS = (
    (audio, "SoundFile", PlainFile),
    (audio, "DeadRuns", Nothing),
    (MelStream, "_live", all_live),
)
PARTS: dict[str, tuple[tuple[Any, str, Any], ...]] = {
    "all": (),
    "checks of the file": CHECKS,
    "hash": ((hashlib, "sha256", Nothing),),
    "columns of level and hum": ((audio, "QuietLevel", Nothing), (audio, "MainsHum", Nothing)),
    "levels": ((audio.SoundStream, "_measure", lambda *_: None),),
}


def cpu_s(work: Callable[[], object], repeats: int) -> float:
    """CPU time of one call, of all threads of this process."""
    started = time.process_time()
    for _ in range(repeats):
        work()
    return (time.process_time() - started) / repeats


def measure(seconds: int, folder: Path) -> list[dict[str, Any]]:
    """A row for each part, for recordings of so many seconds."""
    path, signal = folder / "x.wav", SignalConfig()
    noise = 0.1 * np.random.default_rng(0).standard_normal(RATE_HZ * seconds)
    soundfile.write(path, noise, RATE_HZ)
    log_mel, network = LogMel(signal), make_network(NetworkConfig(), signal.mel_shape, 2).eval()

    @torch.inference_mode()
    def predict() -> None:
        stream = MelStream(path, log_mel, with_hum=True)
        network.infer(torch.cat([block.mel for block in stream]))

    times: dict[str, list[float]] = {part: [] for part in PARTS}
    predict()
    for _ in range(ROUNDS):
        for part, left_out in PARTS.items():
            with ExitStack() as stack:
                for owner, name, instead in left_out:
                    stack.enter_context(mock.patch.object(owner, name, instead))
                times[part].append(cpu_s(predict, max(1, ROUND_S // seconds)))
    whole = np.array(times.pop("all"))
    rows: list[dict[str, Any]] = []
    for part, without in times.items():
        saved = whole - np.array(without)
        rows.append(
            {
                "seconds of sound": seconds,
                "part": part,
                "ms": float(np.median(saved) * 1e3),
                "ms in all": float(np.median(whole) * 1e3),
                "share": f"{np.median(saved / whole):.1%}",
            }
        )
    return rows


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        rows = [row for seconds in SECONDS for row in measure(seconds, Path(folder))]
    write_section("reader", "What reading a recording costs besides decoding", rows, NOTE)
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
