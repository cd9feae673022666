"""What a person hears and sees of a recording: a piece as a sound file, and its mel in order."""

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
from jaxtyping import Float, Float32, Shaped

from leakdet.acoustics.audio import SoundSource, SoundStream
from leakdet.acoustics.containers.sound_file import SoundFile
from leakdet.config import SignalConfig
from leakdet.core.locations import Location

PEAK = 0.7  # of full scale: level of the largest sample point
MAX_GAIN_DB = 60.0
KEPT_BITS = 12  # quantisation noise 74 dB below the peak; halves the file
FEW_POINTS = 1 << 15  # Chromium fails to seek in a FLAC of four blocks or fewer, of 4,096 each


@dataclass(frozen=True)
class Clip:
    """A sound file, with its place in the recording and the gain that it was given."""

    content: bytes
    start_s: float
    duration_s: float
    gain_db: float
    media_type: str  # FLAC is lossless, and supported by every browser since 2017


def read_sound(
    source: SoundSource, signal: SignalConfig, channel: int = 0
) -> tuple[Float32[np.ndarray, " N"], str]:
    """The whole recording at the signal's rate, and its content hash; see `SoundStream`."""
    stream = SoundStream(source, signal, channel)
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
    kind = "WAV" if length < FEW_POINTS else "FLAC"
    soundfile.write(file, pcm, sample_rate_hz, format=kind, subtype="PCM_16")
    start_s, duration_s = start / sample_rate_hz, length / sample_rate_hz
    gain_db = float(20.0 * np.log10(gain))
    return Clip(file.getvalue(), start_s, duration_s, gain_db, f"audio/{kind.lower()}")


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


PICTURE_WINDOWS = 400  # of a longer recording, only the first are drawn


@dataclass(frozen=True)
class MelColumns:
    """Log-mel of a recording in time order, in dB, with its seconds and frequencies if known.

    Band m peaks at `band_hz[m]`.
    """

    level_db: Float[np.ndarray, "M columns"]
    duration_s: float | None
    band_hz: Float[np.ndarray, " M"] | None


def mel_columns(
    windows: Float32[np.ndarray, "W S M T"],
    starts_s: Float[np.ndarray, " W"] | None = None,
    signal: SignalConfig | None = None,
) -> MelColumns:
    """The picture of windows in time order, overlaps drawn once if start and signal are known."""
    if starts_s is None or signal is None:
        columns = _columns(windows)
        return MelColumns(columns.reshape(-1, columns.shape[2]).T, None, None)
    from leakdet.acoustics.mel import band_centres_hz  # imports torch

    return MelColumns(
        _without_overlaps(_columns(windows), starts_s, signal.window_s),
        float(starts_s[-1]) + signal.window_s,
        band_centres_hz(signal),
    )


def _columns(windows: Float32[np.ndarray, "W S M T"]) -> Float32[np.ndarray, "W columns M"]:
    """The segments of each window one after another."""
    return windows.transpose(0, 1, 3, 2).reshape(len(windows), -1, windows.shape[2])


def _without_overlaps(
    columns: Float[np.ndarray, "W columns M"], starts_s: Float[np.ndarray, " W"], window_s: float
) -> Float[np.ndarray, "M total"]:
    """Join windows that may overlap to one picture of the recording."""
    column_s = window_s / columns.shape[1]
    pieces, drawn_until_s = [], 0.0
    for window, start_s in zip(columns, starts_s.tolist(), strict=True):
        pieces.append(window[max(0, round((drawn_until_s - start_s) / column_s)) :])
        drawn_until_s = start_s + window_s
    return np.concatenate(pieces).T
