"""The size of a store before it is built, estimated from the headers of its recordings."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from leakdet._remote import RemoteFile
from leakdet.acoustics.windows import window_starts
from leakdet.building.sources import SourceRecording
from leakdet.config import BuildConfig, SignalConfig

MEL_BYTES = 2  # float16
SOUND_BYTES = {"none": 0, "int16": 2, "float32": 4}


def build_bytes(
    assigned: Sequence[tuple[SourceRecording, str]],
    about_s: Mapping[Path | RemoteFile, float],
    signal: SignalConfig,
    config: BuildConfig,
    leaks: Sequence[str],
) -> int:
    """About how much a build writes at most at a time, uncompressed.

    Everything is spooled, then written split by split, each of whose spools is removed.
    """
    of_split: Counter[str] = Counter()
    for recording, split in assigned:
        size = recording_bytes(about_s[recording.path], signal, config.waveform)
        of_split[split] += size
        if split == "train" and recording.label in leaks:
            of_split["surrogates"] += size * config.surrogates
    return of_split.total() + max(of_split.values(), default=0)


def recording_bytes(seconds: float, signal: SignalConfig, waveform: str) -> int:
    """About the bytes of a recording of this length: its mel, and its sound where that is kept."""
    samples = int(seconds * signal.sample_rate_hz)
    windows = len(window_starts(samples, signal))
    return windows * math.prod(signal.mel_shape) * MEL_BYTES + samples * SOUND_BYTES[waveform]
