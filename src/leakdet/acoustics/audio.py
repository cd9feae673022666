"""Recordings as mono float32 sound at the signal's rate, from files or arrays, block by block."""

import hashlib
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import nan
from typing import Any, NamedTuple

import numpy as np
import soxr
from jaxtyping import Float32

from leakdet.acoustics.containers.sound_file import RATES_HZ, SoundFile
from leakdet.acoustics.measures import PIECE_S, DeadRuns, Flag, MainsHum, QuietLevel
from leakdet.config import SignalConfig
from leakdet.core.errors import InputError, counted
from leakdet.core.locations import Excerpt, Location

# the mean of channels that have nothing in common has 1/channels of their mean power; a tenth of
# that is left only where they cancel each other
CANCEL_POWER = 0.1


class ChannelMix:
    """Mixes blocks [N, C] down to channel `pick` or the mean of all, and notices cancellation."""

    def __init__(self, channels: int, pick: int | None) -> None:
        self._channels, self._pick = channels, 0 if channels == 1 else pick
        self._own_power = self._mean_power = 0.0

    def __call__(self, block: Float32[np.ndarray, "N C"]) -> Float32[np.ndarray, " N"]:
        if self._pick is not None:
            return np.ascontiguousarray(block[:, self._pick])
        mean = np.ascontiguousarray(block.mean(axis=1))
        own = block - block.mean(axis=0)
        self._own_power += float(np.square(own).sum()) / self._channels
        self._mean_power += float(np.square(own.mean(axis=1)).sum())
        return mean

    @property
    def cancels(self) -> bool:
        """True if channels, in opposite phase, cancelled each other in the mean."""
        return self._mean_power < CANCEL_POWER * self._own_power / self._channels


def loudest_channel(blocks: Iterable[Float32[np.ndarray, "_ C"]]) -> int:
    """The channel with the greatest power, leaving out its offset; the first of equals."""
    count, sums, squares = 0, np.zeros(1), np.zeros(1)
    for block in blocks:
        count += len(block)
        sums = sums + block.sum(axis=0, dtype=np.float64)
        squares = squares + np.square(block, dtype=np.float64).sum(axis=0)
    return int(np.argmax(squares - sums**2 / max(1, count)))


# integer PCM: the value of silence and that of full scale, as in libsndfile
PCM = {"uint8": (128.0, 2.0**7), "int16": (0.0, 2.0**15), "int32": (0.0, 2.0**31)}
FLOATS = ("float16", "float32", "float64")


class ArrayRecording:
    """Sound [samples] or [samples, channels]: floats in [-1, 1], or PCM of 8, 16 or 32 bits.

    It is read like a `SoundFile`, and gives the same numbers as a WAV file of these samples.
    `resampled`: its rate is not that of its logger.
    """

    subtype, reads_int16 = "FLOAT", False

    def __init__(self, samples: np.ndarray, rate_hz: Any, resampled: bool = False) -> None:
        if samples.dtype.name not in (*PCM, *FLOATS):
            raise InputError(
                f"the array is of {samples.dtype}; allowed are {', '.join((*FLOATS, *PCM))}."
            )
        if samples.ndim not in (1, 2):
            raise InputError(
                f"the array has shape {samples.shape}; "
                "allowed are [samples] and [samples, channels]."
            )
        rate = _number(rate_hz)
        if rate not in RATES_HZ:
            raise InputError(
                f"the rate is {rate_hz} Hz; allowed are whole numbers from {RATES_HZ[0]} to "
                f"{RATES_HZ[-1]}."
            )
        self._samples = samples[:, None] if samples.ndim == 1 else samples
        self.samplerate = int(rate)
        self.frames, self.channels = self._samples.shape
        if not samples.size:
            raise InputError("the array is empty")
        if self.channels > self.frames:
            raise InputError(
                f"the array has shape {samples.shape}, which is {self.channels} channels of "
                f"{self.frames} samples each; transpose it to [samples, channels]."
            )
        self.resampled = resampled
        self._position = 0

    def rewind(self) -> None:
        """Go back to the start."""
        self._position = 0

    def flags(self) -> list[Flag]:
        """No flags: an array has no file structure that could be damaged."""
        return []

    def read(self, frames: int, **_: Any) -> Float32[np.ndarray, "N C"]:
        """The next samples, at most `frames`."""
        block = self._samples[self._position : self._position + frames]
        self._position += len(block)
        if block.dtype.name not in PCM:
            return np.ascontiguousarray(block, np.float32)
        silence, full_scale = PCM[block.dtype.name]
        return (block.astype(np.float32) - np.float32(silence)) * np.float32(1 / full_scale)


def _number(value: Any) -> float:
    """The value as a float; NaN of what is no number."""
    try:
        return nan if isinstance(value, str | bool) else float(value)
    except TypeError:
        return nan


BLOCK_S = PIECE_S  # decoded at a time; bounds the memory of a recording of any length
FULL_SCALE = 0.999  # sample points at least this large count as clipped
CLIPPED_FRACTION = 1e-3  # more than this share of clipped sample points flags the recording


@dataclass
class WaveformFacts:
    """Measurements of a recording at its own rate, before any filter; complete after one pass."""

    source_rate_hz: int
    source_frames: int = 0
    sum_squares: float = 0.0
    sum_samples: float = 0.0
    clipped_samples: int = 0
    peak: float = 0.0
    mains_hum_db: tuple[float, ...] = ()  # for each of MAINS_HZ; empty where not asked for
    strongest_hum_db: float | None = None  # of the two; None where not asked for, or not told
    quiet_level_dbfs: float | None = None
    flags: list[Flag] = field(default_factory=list)
    # of the decoded mono sample points: equal for a WAV and a FLAC of the same sound
    content_sha256: str = ""

    @property
    def duration_s(self) -> float:
        return self.source_frames / self.source_rate_hz

    @property
    def rms_dbfs(self) -> float:
        return 10.0 * math.log10(max(self.sum_squares / max(1, self.source_frames), 1e-20))

    @property
    def dc_offset(self) -> float:
        return self.sum_samples / max(1, self.source_frames)

    @property
    def clipped_fraction(self) -> float:
        return self.clipped_samples / max(1, self.source_frames)


OpenSound = SoundFile | ArrayRecording  # can be read again from its start
SoundSource = Location | Excerpt | OpenSound


class Header(NamedTuple):
    """The header of a sound file."""

    rate_hz: int
    channels: int
    about_s: float  # estimated from the file's size where the header has no length
    length_s: float = 0.0  # 0: the header has none


def read_header(path: Location) -> Header:
    """Read a sound file's header. Raises `InputError` if it is not an audio file."""
    with SoundFile(path) as file:
        rate_hz, channels = int(file.samplerate), int(file.channels)
        about_s, length_s = file.about_frames() / rate_hz, file.header_frames() / rate_hz
        return Header(rate_hz, channels, about_s, length_s)


def read_length(path: Location) -> tuple[int, int, int]:
    """Sample points of a channel by the file's structure, their rate in Hz, and the channels.

    Raises `InputError` if it is not an audio file.
    """
    with SoundFile(path) as file:
        return file.announced_frames(), int(file.samplerate), int(file.channels)


def recordings_in(source: SoundSource, signal: SignalConfig) -> Iterator[tuple[SoundSource, int]]:
    """The recordings of a file or array, each with its channel for `SoundStream`.

    It is one, unless `signal.channels` is `each`. Read each before the next is asked for.
    """
    if signal.channels != "each":
        yield source, 0
        return
    if isinstance(source, ArrayRecording) and source.channels > 1:
        raise InputError(
            f"the array has {source.channels} channels, of which each is a recording "
            "(signal.channels=each); give them one by one."
        )
    with _opened(source) as file:
        for channel in range(1, file.channels + 1):
            yield file, channel


@contextmanager
def _opened(source: SoundSource) -> Iterator[OpenSound]:
    if isinstance(source, Location):
        with SoundFile(source) as file:
            yield file
    elif isinstance(source, Excerpt):
        with SoundFile(*source) as file:
            yield file
    else:
        source.rewind()
        yield source


class SoundStream:
    """One pass over a recording: iterate for blocks of sound, then read `facts`.

    Blocks are float32 [sample points] at `signal.sample_rate_hz`: of `channel`, counted from 1, or
    with 0 made mono as `signal.channels` says; resampled by soxr with its anti-alias filter, and
    high-passed if the settings ask for it. Values beyond ±1 in float files are kept and flagged
    `over_full_scale`. Mains hum is measured only `with_hum`, since it takes time.
    """

    def __init__(
        self, source: SoundSource, signal: SignalConfig, channel: int = 0, with_hum: bool = False
    ) -> None:
        self.source = source
        self.signal = signal
        self.channel = channel
        self.with_hum = with_hum
        self.facts = WaveformFacts(source_rate_hz=0)
        self.dead_runs = DeadRuns(signal.sample_rate_hz)

    def __iter__(self) -> Iterator[np.ndarray]:
        with _opened(self.source) as file:
            facts = self.facts = WaveformFacts(source_rate_hz=file.samplerate)
            self.dead_runs = DeadRuns(self.signal.sample_rate_hz)
            high_pass = _HighPass(self.signal)
            resample = _Resampler(file.samplerate, self.signal.sample_rate_hz)
            digest = hashlib.sha256(str(file.samplerate).encode())
            hum = MainsHum(file.samplerate) if self.with_hum else None
            quiet = QuietLevel(file.samplerate)
            mix = ChannelMix(file.channels, self._picked_channel(file))
            for block in map(mix, self._decode(file)):
                self._measure(block)
                digest.update(block.data)
                quiet.add(block)
                if hum:
                    hum.add(block)
                yield high_pass(self._noted(resample(block)))
            yield high_pass(self._noted(resample(np.empty(0, np.float32), last=True)))
            facts.content_sha256 = digest.hexdigest()
            if hum:
                facts.mains_hum_db = hum.prominences_db()
                facts.strongest_hum_db = max(facts.mains_hum_db) if hum.is_told else None
            facts.quiet_level_dbfs = quiet.dbfs()
            facts.flags = self._flags(file)
            if mix.cancels:
                facts.flags.append("channels_cancel")

    def _noted(self, sound: np.ndarray) -> np.ndarray:
        """The same sound, its dead runs noted: before a high-pass, which turns constants into 0."""
        self.dead_runs.add(sound)
        return sound

    def _picked_channel(self, file: OpenSound) -> int | None:
        """Index of the channel that is used; None: the mean of all."""
        if self.channel > file.channels or (self.signal.channels == "each" and not self.channel):
            raise InputError(
                f"it has {counted(file.channels, 'channel')}, and channel {self.channel} is asked "
                f"for (signal.channels={self.signal.channels})"
            )
        if self.channel:
            return self.channel - 1
        if self.signal.channels == "loudest" and file.channels > 1:
            loudest = loudest_channel(self._decode(file))
            file.rewind()
            return loudest
        return None if self.signal.channels == "mean" else 0

    def _decode(self, file: OpenSound) -> Iterator[np.ndarray]:
        size = int(BLOCK_S * file.samplerate)
        is_int16 = file.reads_int16
        while True:
            block = file.read(size, dtype="int16" if is_int16 else "float32", always_2d=True)
            if not len(block):
                return
            if is_int16:
                block = np.multiply(block, np.float32(2.0**-15), dtype=np.float32)
            yield block

    def _measure(self, block: np.ndarray) -> None:
        facts = self.facts
        energy = float(np.dot(block, block))
        if not math.isfinite(energy):
            raise InputError(f"it holds NaN or infinite values near {facts.duration_s:.1f} s")
        facts.source_frames += len(block)
        facts.sum_squares += energy
        facts.sum_samples += float(block.sum())  # pairwise, and so exact enough
        peak = max(float(block.max()), -float(block.min()))
        facts.peak = max(facts.peak, peak)
        if peak >= FULL_SCALE:
            facts.clipped_samples += int(np.count_nonzero(np.abs(block) >= FULL_SCALE))

    def _flags(self, file: OpenSound) -> list[Flag]:
        facts = self.facts
        conditions: dict[Flag, bool] = {
            "clipped": facts.clipped_fraction > CLIPPED_FRACTION,
            "over_full_scale": facts.peak > 1.0,
            # the mel bands above the recording's own Nyquist frequency are empty
            "narrow_band": file.samplerate / 2 < self.signal.top_hz,
        }
        return [*file.flags(), *(name for name, is_met in conditions.items() if is_met)]


class _Resampler:
    def __init__(self, source_rate_hz: int, rate_hz: int) -> None:
        self._stream = None
        if source_rate_hz != rate_hz:
            self._stream = soxr.ResampleStream(source_rate_hz, rate_hz, 1, dtype="float32")

    def __call__(self, block: np.ndarray, last: bool = False) -> np.ndarray:
        if self._stream is None:
            return block
        resampled: np.ndarray = self._stream.resample_chunk(block, last=last)
        return resampled


class _HighPass:
    """Causal Butterworth filter across blocks, without a step at the start."""

    def __init__(self, signal: SignalConfig) -> None:
        self._sections: np.ndarray | None = None
        self._state: np.ndarray | None = None
        if signal.highpass_hz > 0:
            # imported only where it is used, since that takes half a second
            from scipy.signal import butter

            self._sections = butter(
                signal.highpass_order,
                signal.highpass_hz,
                "highpass",
                fs=signal.sample_rate_hz,
                output="sos",
            )

    def __call__(self, block: np.ndarray) -> np.ndarray:
        if self._sections is None or not len(block):
            return block
        from scipy.signal import sosfilt, sosfilt_zi

        if self._state is None:
            self._state = sosfilt_zi(self._sections) * block[0]
        filtered, self._state = sosfilt(self._sections, block, zi=self._state)
        return np.asarray(filtered, np.float32)
