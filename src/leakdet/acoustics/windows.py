"""Windows of a stream of sound, and their log-mel, in bounded memory."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Float16, Float32, Int64
from torch import Tensor

from leakdet.acoustics.audio import SoundSource, SoundStream, WaveformFacts
from leakdet.acoustics.measures import WindowState, are_loud, dead_flags, window_state
from leakdet.acoustics.mel import LogMel
from leakdet.config import SignalConfig


def window_starts(n_samples: int, signal: SignalConfig) -> Int64[np.ndarray, " W"]:
    """First sample point of every window of a recording.

    Windows start at every hop; a tail of more than half a window gets one more, aligned to the end.
    A recording shorter than a window has one window, at 0.
    """
    window, hop = signal.window_samples, signal.window_hop_samples
    if n_samples <= window:
        return np.zeros(1, np.int64)
    starts = np.arange(0, n_samples - window + 1, hop, dtype=np.int64)
    tail = n_samples - (starts[-1] + window)
    return np.append(starts, n_samples - window) if 2 * tail > window else starts


@dataclass(frozen=True)
class Chunk:
    """A piece of a recording that holds one window at every hop from its start."""

    sound: Float32[np.ndarray, " N"]
    start_sample: int  # in the recording
    windows: int


def split_into_chunks(blocks: Iterable[np.ndarray], signal: SignalConfig) -> Iterator[Chunk]:
    """Regroup blocks of any size into chunks whose windows are those of `window_starts`.

    A recording shorter than a window is one chunk of its own length.
    """
    window, hop = signal.window_samples, signal.window_hop_samples
    # sound from sample point `origin` on: the last window already yielded, and what follows it
    pending = np.empty(0, np.float32)
    origin = next_start = 0
    for block in blocks:
        pending = np.concatenate([pending, block])
        ready = origin + len(pending) - window - next_start
        if ready < 0:
            continue
        count = 1 + ready // hop
        stop = next_start + (count - 1) * hop + window
        yield Chunk(pending[next_start - origin : stop - origin], next_start, count)
        next_start += count * hop
        kept_from = next_start - hop
        pending, origin = pending[kept_from - origin :], kept_from
    n_samples = origin + len(pending)
    if next_start == 0:
        yield Chunk(pending, 0, 1)
    elif 2 * (n_samples - (origin + window)) > window:
        yield Chunk(pending[-window:], n_samples - window, 1)


@dataclass(frozen=True)
class WindowBlock:
    """Some windows of a recording, and the sound that they come from.

    Windows that are not `live` hold silence, a dropout or a stuck value: never pool them.
    """

    window_start_s: Float32[np.ndarray, " W"]
    live: Bool[np.ndarray, " W"]
    chunk: Chunk
    log_mel: LogMel

    @cached_property
    def mel(self) -> Float16[Tensor, "W S M T"]:
        """Computed when it is asked for: of many blocks in a row it takes half the time."""
        with torch.inference_mode():
            return chunk_mel(self.chunk, self.log_mel).half().contiguous()


class MelStream:
    """One pass over a recording: iterate for blocks of windows, then read `facts`.

    The mel is rounded to float16, so that predictions from audio and from a store see the same
    numbers. Memory holds a few seconds of sound, however long the recording is.
    """

    def __init__(
        self,
        source: SoundSource,
        log_mel: LogMel,
        channel: int = 0,
        with_hum: bool = False,
    ) -> None:
        """`channel` and `with_hum` as for `SoundStream`."""
        self._log_mel = log_mel
        self._sound = SoundStream(source, log_mel.signal, channel, with_hum)
        self._short = False
        self._states: set[WindowState] = set()

    @property
    def facts(self) -> WaveformFacts:
        return self._sound.facts

    def __iter__(self) -> Iterator[WindowBlock]:
        signal = self._log_mel.signal
        self._states = set()
        for chunk in split_into_chunks(self._sound, signal):
            self._short = len(chunk.sound) < signal.window_samples
            starts = chunk.start_sample + np.arange(chunk.windows) * signal.window_hop_samples
            start_s = (starts / signal.sample_rate_hz).astype(np.float32)
            yield WindowBlock(start_s, self._live(chunk), chunk, self._log_mel)
        self.facts.flags[:0] = dead_flags(self._states)
        if self._short:
            self.facts.flags.insert(0, "short")

    def _live(self, chunk: Chunk) -> Bool[np.ndarray, " W"]:
        signal, states = self._log_mel.signal, list[WindowState]()
        hop, runs = signal.window_hop_samples, self._sound.dead_runs
        if not self._short and not runs.any:
            pieces = chunk.sound[: chunk.windows * hop].reshape(chunk.windows, hop)
            if are_loud(pieces, signal.window_samples):
                self._states.add(WindowState.LIVE)
                return np.ones(chunk.windows, bool)
        for number in range(chunk.windows):
            start = number * hop
            window = chunk.sound[start : start + signal.window_samples]
            first = chunk.start_sample + start
            states.append(window_state(window, *runs.within(first, first + len(window))))
        self._states.update(states)
        return np.array([state is WindowState.LIVE for state in states])


def chunk_mel(chunk: Chunk, log_mel: LogMel) -> Float[Tensor, "W S M T"]:
    """Log-mel of the windows; segments that they share are computed once."""
    signal = log_mel.signal
    sound = torch.from_numpy(chunk.sound)
    if len(sound) < signal.window_samples:
        return _short_mel(sound, log_mel)
    per_hop, uneven = divmod(signal.window_hop_samples, signal.segment_hop_samples)
    if uneven or signal.detrend != "none" or chunk.windows == 1:
        return log_mel.forward(sound.unfold(0, signal.window_samples, signal.window_hop_samples))
    shared = log_mel.of_segments(_segments(sound, signal))
    index = torch.arange(chunk.windows)[:, None] * per_hop + torch.arange(signal.segments)
    return shared[index]


def _short_mel(sound: Float[Tensor, " N"], log_mel: LogMel) -> Float[Tensor, "1 S M T"]:
    """One window from too little sound: its segments repeat in turn, so that none is padding.

    Only a recording shorter than one segment is padded with zeros, to one segment.
    """
    signal = log_mel.signal
    missing = signal.segment_samples - len(sound)
    if missing > 0:
        sound = torch.nn.functional.pad(sound, (0, missing))
    if signal.detrend != "none":
        sound = sound - sound.mean()
    mel = log_mel.of_segments(_segments(sound, signal))
    return mel[torch.arange(signal.segments) % len(mel)][None]


def _segments(sound: Float[Tensor, " N"], signal: SignalConfig) -> Float[Tensor, "S K"]:
    return sound.unfold(0, signal.segment_samples, signal.segment_hop_samples)
