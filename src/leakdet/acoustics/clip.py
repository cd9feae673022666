"""A short piece of a recording as a file that every browser plays: what a person listens to as evidence."""

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from leakdet.acoustics.audio import SoundStream
from leakdet.config import SignalConfig

PEAK = 0.7  # of full scale: where the loudest sample is put
MAX_GAIN_DB = 60.0
KEPT_BITS = 12  # the noise of rounding lies 74 dB under the loudest sample; halves the file


@dataclass(frozen=True)
class Clip:
    """A sound file; where in its recording it starts, its length, and how much louder than recorded it plays."""

    content: bytes
    start_s: float
    duration_s: float
    gain_db: float
    media_type: str = "audio/flac"  # without loss, and played by every browser since 2017


def read_sound(path: Path, signal: SignalConfig) -> tuple[np.ndarray, str]:
    """The whole recording at the signal's rate, float32 [samples], and the hash of its content. Raises `InputError`."""
    stream = SoundStream(path, signal)
    sound = np.concatenate([np.empty(0, np.float32), *stream])
    return sound, stream.facts.content_sha256


def make_clip(sound: np.ndarray, sample_rate_hz: int, start_s: float, most_s: float) -> Clip:
    """At most `most_s` seconds from `start_s` on (earlier where the end is near), brought to the same loudest sample."""
    length = min(len(sound), int(most_s * sample_rate_hz))
    start = max(0, min(int(start_s * sample_rate_hz), len(sound) - length))
    piece = sound[start : start + length].astype(np.float64)
    loudest = float(np.abs(piece).max(initial=0.0))
    gain = min(PEAK / loudest, 10.0 ** (MAX_GAIN_DB / 20.0)) if loudest > 0 else 1.0
    step = 1 << (16 - KEPT_BITS)
    pcm = (np.rint(piece * gain * 32767 / step) * step).astype(np.int16)
    file = io.BytesIO()
    soundfile.write(file, pcm, sample_rate_hz, format="FLAC", subtype="PCM_16")
    return Clip(
        file.getvalue(),
        start / sample_rate_hz,
        length / sample_rate_hz,
        float(20.0 * np.log10(gain)),
    )
