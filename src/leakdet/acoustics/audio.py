"""Audio files as mono float32 sound at the signal's rate, read block by block with libsndfile."""

import hashlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soxr

from leakdet._remote import RemoteFile
from leakdet.acoustics.array_recording import ArrayRecording
from leakdet.acoustics.channel_mix import ChannelMix, loudest_channel
from leakdet.acoustics.dead_sound import DeadRuns
from leakdet.acoustics.flags import Flag
from leakdet.acoustics.hum import PIECE_S, MainsHum
from leakdet.acoustics.quiet_level import QuietLevel
from leakdet.acoustics.sound_file import SoundFile
from leakdet.config import SignalConfig
from leakdet.errors import InputError, counted

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
    mains_hum_db: tuple[float, ...] = ()  # for each of hum.MAINS_HZ; empty where not asked for
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
SoundSource = Path | RemoteFile | OpenSound


class Header(NamedTuple):
    """The header of a sound file."""

    rate_hz: int
    channels: int
    about_s: float  # estimated from the file's size where the header has no length


def read_header(path: Path | RemoteFile) -> Header:
    """Read a sound file's header. Raises `InputError` if it is not an audio file."""
    with SoundFile(path) as file:
        rate_hz, channels = int(file.samplerate), int(file.channels)
        return Header(rate_hz, channels, file.about_frames() / rate_hz)


def recordings_in(source: SoundSource, signal: SignalConfig) -> Iterator[tuple[SoundSource, int]]:
    """The recordings of a file or array, each with its channel for `SoundStream`.

    It is one, unless `signal.channels` is `each`. Read each before the next is asked for.

    Raises:
        InputError: the file cannot be opened, or an array has several channels that are recordings.
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
    if isinstance(source, Path | RemoteFile):
        with SoundFile(source) as file:
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

    Raises:
        InputError: the file cannot be opened or decoded, has no such channel, or holds NaN or
            infinite values.
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
                facts.strongest_hum_db = hum.strongest_db()
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
        # converting 16-bit values here is twice as fast as in libsndfile, with equal results
        is_int16 = file.subtype == "PCM_16"
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
