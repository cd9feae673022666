"""Reading audio: any file that libsndfile decodes becomes mono float32 at the signal's rate, block by block."""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import soundfile
import soxr

from leakdet.acoustics.array_recording import ArrayRecording
from leakdet.acoustics.hum import MAINS_HZ, PIECE_S, MainsHum
from leakdet.config import SignalConfig
from leakdet.errors import InputError

AUDIO_SUFFIXES = frozenset(
    ".wav .wave .flac .ogg .oga .opus .mp3 .aif .aiff .aifc .au .snd .caf .w64 .rf64 .bwf".split()
)
BLOCK_S = PIECE_S  # sound decoded at a time; bounds the memory of a recording of any length
FULL_SCALE = 0.999  # samples at least this large count as clipped
CLIPPED_FRACTION = 1e-3  # more than this share of clipped samples flags the recording
SILENCE_DBFS = -90.0  # below the least significant bit of 16-bit audio


@dataclass(frozen=True)
class AudioHeader:
    """What a file says of itself before it is decoded."""

    frames: int
    source_rate_hz: int
    channels: int


@dataclass
class WaveformFacts:
    """What was heard in one recording, at its own rate and before cleaning. Complete once the stream is exhausted."""

    source_rate_hz: int
    source_frames: int = 0
    sum_squares: float = 0.0
    sum_samples: float = 0.0
    clipped_samples: int = 0
    peak: float = 0.0
    mains_hum_db: tuple[float, ...] = ()  # for each of hum.MAINS_HZ, before any high-pass
    flags: list[str] = field(default_factory=list)
    # of the decoded mono samples: the same sound as WAV and as FLAC is the same content
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


def is_audio_name(path: Path) -> bool:
    return path.suffix.lower() in AUDIO_SUFFIXES


def read_header(path: Path) -> AudioHeader:
    """Raises `InputError` for a file that is missing, empty, or not audio."""
    with _opened(path) as file:
        return AudioHeader(file.frames, file.samplerate, file.channels)


def _opened(source: Path | ArrayRecording) -> soundfile.SoundFile | ArrayRecording:
    if isinstance(source, ArrayRecording):
        return source
    try:
        if source.stat().st_size == 0:
            raise InputError("the file is empty (0 bytes)")
        file = soundfile.SoundFile(source)
    except OSError as error:
        raise InputError(f"the file cannot be opened: {error.strerror}") from error
    except soundfile.LibsndfileError as error:
        raise InputError(f"not readable as audio: {error.error_string.rstrip('.')}") from error
    if file.frames == 0:
        file.close()
        raise InputError("the file has a header but no samples")
    return file


class SoundStream:
    """One pass over a recording: iterate for blocks of sound, then read `facts`.

    Blocks are float32 [samples] at `signal.sample_rate_hz`: channels mixed by `signal.channels`, resampled by soxr with its
    anti-alias filter, and high-passed where the settings say so. Float files may exceed ±1: values are kept, the recording
    is flagged `over_full_scale`.

    Raises:
        InputError: the file cannot be opened or decoded, or holds NaN or infinite samples.
    """

    def __init__(self, source: Path | ArrayRecording, signal: SignalConfig) -> None:
        self.source = source
        self.signal = signal
        self.facts = WaveformFacts(source_rate_hz=0)

    def __iter__(self) -> Iterator[np.ndarray]:
        with _opened(self.source) as file:
            facts = self.facts = WaveformFacts(source_rate_hz=file.samplerate)
            clean = _HighPass(self.signal)
            resample = _Resampler(file.samplerate, self.signal.sample_rate_hz)
            digest, hum = hashlib.sha256(str(file.samplerate).encode()), MainsHum(file.samplerate)
            for block in self._decoded(file):
                self._take_note(block, digest)
                hum.add(block)
                yield clean(resample(block))
            yield clean(resample(np.empty(0, np.float32), last=True))
            facts.content_sha256 = digest.hexdigest()
            facts.mains_hum_db = tuple(hum.over_neighbours_db(mains) for mains in MAINS_HZ)
            facts.flags = self._flags(file)

    def _decoded(self, file: soundfile.SoundFile | ArrayRecording) -> Iterator[np.ndarray]:
        size = int(BLOCK_S * file.samplerate)
        # libsndfile takes twice as long to make the same numbers itself
        kind, scale = (
            ("int16", np.float32(2.0**-15)) if file.subtype == "PCM_16" else ("float32", None)
        )
        while True:
            try:
                block = file.read(size, dtype=kind, always_2d=True)
            except soundfile.LibsndfileError as error:
                at_s = self.facts.source_frames / file.samplerate
                raise InputError(
                    f"decoding failed after {at_s:.1f} s: {error.error_string.rstrip('.')}"
                ) from error
            if not len(block):
                return
            if scale is not None:
                block = block.astype(np.float32) * scale
            one = (
                block[:, 0]
                if file.channels == 1 or self.signal.channels == "first"
                else block.mean(axis=1)
            )
            yield np.ascontiguousarray(one)

    def _take_note(self, block: np.ndarray, digest: "hashlib._Hash") -> None:
        facts = self.facts
        energy = float(np.dot(block, block))
        if not math.isfinite(energy):
            raise InputError(f"it holds NaN or infinite samples near {facts.duration_s:.1f} s")
        digest.update(block.data)
        facts.source_frames += len(block)
        facts.sum_squares += energy
        facts.sum_samples += float(block.sum(dtype=np.float64))
        peak = max(float(block.max()), -float(block.min()))
        facts.peak = max(facts.peak, peak)
        if peak >= FULL_SCALE:
            facts.clipped_samples += int(np.count_nonzero(np.abs(block) >= FULL_SCALE))

    def _flags(self, file: soundfile.SoundFile | ArrayRecording) -> list[str]:
        facts = self.facts
        # libsndfile corrects the length of a cut-off WAV by itself and says so in its log only
        cut_off = facts.source_frames < file.frames or "should be" in file.extra_info
        found = {
            "silent": facts.rms_dbfs < SILENCE_DBFS,
            "clipped": facts.clipped_fraction > CLIPPED_FRACTION,
            "over_full_scale": facts.peak > 1.0,
            "truncated": cut_off,
            # resampled from a lower rate: the bands above its own Nyquist frequency are empty
            "narrow_band": file.samplerate / 2 < self.signal.top_hz,
        }
        return [name for name, present in found.items() if present]


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
    """Causal Butterworth that carries its state from block to block, started as if the first sample had lasted for ever."""

    def __init__(self, signal: SignalConfig) -> None:
        self._sections: np.ndarray | None = None
        self._state: np.ndarray | None = None
        if signal.highpass_hz > 0:
            from scipy.signal import (
                butter,
            )  # scipy.signal takes half a second to import: only who filters pays

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
