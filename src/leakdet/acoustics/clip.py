"""Pieces of a recording as sound files: for browsers, or as it was recorded."""

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
from jaxtyping import Float, Float32, Shaped

from leakdet.acoustics.audio import SoundStream
from leakdet.acoustics.containers.sound_file import SoundFile
from leakdet.config import SignalConfig
from leakdet.core.locations import Location

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
    """The whole recording at the signal's rate, and its content hash; see `SoundStream`."""
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


# Of decoded integers in the upper bits of 32, the kind of WAV that keeps them all.
OF_INTEGERS = {
    "PCM_S8": "PCM_U8", "PCM_U8": "PCM_U8", "PCM_16": "PCM_16", "PCM_24": "PCM_24",
    "PCM_32": "PCM_32", "ULAW": "PCM_16", "ALAW": "PCM_16", "ALAC_16": "PCM_16",
    "ALAC_24": "PCM_24", "DPCM_8": "PCM_U8", "DPCM_16": "PCM_16",
}  # fmt: skip


@dataclass(frozen=True)
class SourcePiece:
    """Sample points [N, channels] from `start_s` on, and the kind of WAV that holds them."""

    points: Shaped[np.ndarray, "N C"]
    rate_hz: int
    subtype: str
    start_s: float

    @property
    def about_bytes(self) -> int:
        return 1024 + self.points.nbytes

    def write(self, out: Path) -> None:
        """Write a WAV file."""
        soundfile.write(out, self.points, self.rate_hz, self.subtype, format="WAV")


def read_piece(source: Location, start_s: float, stop_s: float, channel: int = 0) -> SourcePiece:
    """The sample points of a file between two times, of all channels or of one, counted from 1.

    What is lossy is decoded to floats. Everything before the piece is decoded too, since many kinds
    of files cannot be entered exactly.
    """
    with SoundFile(source) as file:
        whole = file.subtype in OF_INTEGERS
        subtype = OF_INTEGERS.get(file.subtype) or ("DOUBLE", "FLOAT")[file.subtype != "DOUBLE"]
        dtype = "int32" if whole else {"DOUBLE": "float64", "FLOAT": "float32"}[subtype]
        start, stop = round(start_s * file.samplerate), round(stop_s * file.samplerate)
        position, pieces = 0, [np.empty((0, file.channels), dtype)]
        while position < stop:
            block = file.read(stop - position, dtype)
            if not len(block):
                break
            pieces.append(block[max(0, start - position) :])
            position += len(block)
        points = np.concatenate(pieces)
        if channel:
            points = points[:, channel - 1 : channel]
        return SourcePiece(points, int(file.samplerate), subtype, start / file.samplerate)
