"""Time what predict's reader does besides decoding: structure, dead sound, hash, levels, hum.

Each part is left out in turn, in one process and interleaved, and its CPU time is the difference.
"""

import hashlib
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import soundfile
import torch

from benchmarks import Row, Section, in_turn, run, time_s
from leakdet.acoustics import audio
from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.windows import MelStream
from leakdet.config import NetworkConfig, SignalConfig
from leakdet.detection.networks import make_network
from stores import write_sounds

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

    reads_int16 = True

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def flags(self) -> list[str]:
        """None."""
        return []


class Nothing:
    """In place of a hash, or of what looks for dead runs."""

    any = is_told = False

    def __init__(self, *_: Any) -> None: ...
    def add(self, *_: Any) -> None: ...
    def update(self, *_: Any) -> None: ...
    def dbfs(self) -> None: ...
    def prominences_db(self) -> tuple[float, ...]:
        """None of either mains."""
        return ()

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


def without(left_out: tuple[tuple[Any, str, Any], ...], work: Callable[[], object]) -> float:
    """CPU time of the work without some of what it does."""
    with ExitStack() as stack:
        for owner, name, instead in left_out:
            stack.enter_context(mock.patch.object(owner, name, instead))
        return time_s(work, time.process_time)


def measured(seconds: int, folder: Path) -> Iterator[Row]:
    """A row for each part, for recordings of so many seconds."""
    signal, repeats = SignalConfig(), max(1, ROUND_S // seconds)
    (path,) = write_sounds(folder / str(seconds), [seconds], RATE_HZ)
    log_mel, network = LogMel(signal), make_network(NetworkConfig(), signal.mel_shape, 2).eval()

    @torch.inference_mode()
    def predict() -> None:
        for _ in range(repeats):
            stream = MelStream(path, log_mel, with_hum=True)
            network.infer(torch.cat([block.mel for block in stream]))

    predict()
    works = {part: partial(without, left_out, predict) for part, left_out in PARTS.items()}
    times = {part: of_part / repeats for part, of_part in in_turn(works, ROUNDS).items()}
    whole = times.pop("all")
    for part, rest in times.items():
        yield {
            "seconds of sound": seconds,
            "part": part,
            "ms": float(np.median(whole - rest) * 1e3),
            "ms in all": float(np.median(whole) * 1e3),
            "share": f"{np.median((whole - rest) / whole):.1%}",
        }


def rows() -> Iterator[Row]:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for seconds in SECONDS:
            yield from measured(seconds, Path(folder))


if __name__ == "__main__":
    run(__doc__, Section("reader", "What reading a recording costs besides decoding", rows(), NOTE))
