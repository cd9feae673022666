"""A short piece of a recording as a sound file for reports, playable in every browser."""

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
from jaxtyping import Float, Float32

from leakdet.acoustics.audio import SoundStream
from leakdet.config import SignalConfig

PEAK = 0.7  # of full scale: level of the largest sample point
MAX_GAIN_DB = 60.0
KEPT_BITS = 12  # quantisation noise 74 dB below the peak; halves the file


@dataclass(frozen=True)
class Clip:
    """A sound file, with its place in the recording and the gain that it was given."""

    content: bytes
    start_s: float
    duration_s: float
    gain_db: float
    media_type: str = "audio/flac"  # lossless, and supported by every browser since 2017


def read_sound(
    path: Path, signal: SignalConfig, channel: int = 0
) -> tuple[Float32[np.ndarray, " N"], str]:
    """The whole recording at the signal's rate, and its content hash; see `SoundStream`.

    Raises:
        InputError: the file cannot be read as audio.
    """
    stream = SoundStream(path, signal, channel)
    sound = np.concatenate([np.empty(0, np.float32), *stream])
    return sound, stream.facts.content_sha256


def make_clip(
    sound: Float[np.ndarray, " N"], sample_rate_hz: int, start_s: float, most_s: float
) -> Clip:
    """Cut at most `most_s` seconds from `start_s` (earlier near the end), with a peak of `PEAK`."""
    length = min(len(sound), int(most_s * sample_rate_hz))
    start = max(0, min(int(start_s * sample_rate_hz), len(sound) - length))
    piece = sound[start : start + length].astype(np.float64)
    loudest = float(np.abs(piece).max(initial=0.0))
    gain = min(PEAK / loudest, 10.0 ** (MAX_GAIN_DB / 20.0)) if loudest > 0 else 1.0
    step = 1 << (16 - KEPT_BITS)
    pcm = (np.rint(piece * gain * 32767 / step) * step).astype(np.int16)
    file = io.BytesIO()
    soundfile.write(file, pcm, sample_rate_hz, format="FLAC", subtype="PCM_16")
    gain_db = float(20.0 * np.log10(gain))
    return Clip(file.getvalue(), start / sample_rate_hz, length / sample_rate_hz, gain_db)
