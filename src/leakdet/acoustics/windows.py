"""Cutting a recording: windows of a stream of sound, and their log-mel, in bounded memory."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from leakdet.acoustics.array_recording import ArrayRecording
from leakdet.acoustics.audio import SoundStream, WaveformFacts
from leakdet.acoustics.mel import LogMel
from leakdet.config import SignalConfig


def window_starts(n_samples: int, signal: SignalConfig) -> np.ndarray:
    """First sample of every window of a recording, int64 [W].

    1 + (N - window) // hop of them; a tail of more than half a window gets one more, aligned to the end, so that the end is
    heard once. A recording shorter than a window has one window, at 0.
    """
    window, hop = signal.window_samples, signal.window_hop_samples
    if n_samples <= window:
        return np.zeros(1, np.int64)
    starts = np.arange(0, n_samples - window + 1, hop, dtype=np.int64)
    tail = n_samples - (starts[-1] + window)
    return np.append(starts, n_samples - window) if 2 * tail > window else starts


@dataclass(frozen=True)
class Stretch:
    """A piece of a recording that holds windows at every hop from its start: sound [samples], first sample, windows in it."""

    sound: np.ndarray
    start_sample: int
    windows: int


def stretches(blocks: Iterable[np.ndarray], signal: SignalConfig) -> Iterator[Stretch]:
    """Regroup blocks of any size into stretches of whole windows, together exactly `window_starts` of the recording.

    A recording shorter than a window comes as one stretch of its own length.
    """
    window, hop = signal.window_samples, signal.window_hop_samples
    # sound from `origin` on: the last window already cut, and what follows
    held = np.empty(0, np.float32)
    origin = next_start = 0
    for block in blocks:
        held = np.concatenate([held, block])
        ready = origin + len(held) - window - next_start
        if ready < 0:
            continue
        count = 1 + ready // hop
        stop = next_start + (count - 1) * hop + window
        yield Stretch(held[next_start - origin : stop - origin], next_start, count)
        next_start += count * hop
        kept_from = next_start - hop
        held, origin = held[kept_from - origin :], kept_from
    n_samples = origin + len(held)
    if next_start == 0:
        yield Stretch(held, 0, 1)
    elif 2 * (n_samples - (origin + window)) > window:
        yield Stretch(held[-window:], n_samples - window, 1)


@dataclass(frozen=True)
class WindowBlock:
    """Some windows of a recording: mel [W, segments, mels, frames] float16, window_start_s [W] float32, and their sound."""

    mel: Tensor
    window_start_s: np.ndarray
    stretch: Stretch


class MelStream:
    """One pass over a recording: iterate for blocks of windows, then read `facts`.

    The mel is rounded to float16 here, so that what is predicted from audio and what is read from a store are the same numbers.
    Memory is bounded by a few seconds of sound, whatever the length of the recording.
    """

    def __init__(
        self,
        source: Path | ArrayRecording,
        log_mel: LogMel,
        change: Callable[[Iterable[np.ndarray]], Iterable[np.ndarray]] | None = None,
    ) -> None:
        """`change` turns the recording's blocks of sound into others, as a surrogate's; `facts` stay the recording's."""
        self._log_mel = log_mel
        self._change = change
        self._sound = SoundStream(source, log_mel.signal)
        self._short = False

    @property
    def facts(self) -> WaveformFacts:
        return self._sound.facts

    def __iter__(self) -> Iterator[WindowBlock]:
        signal = self._log_mel.signal
        blocks = self._change(self._sound) if self._change else self._sound
        for stretch in stretches(blocks, signal):
            self._short = len(stretch.sound) < signal.window_samples
            starts = stretch.start_sample + np.arange(stretch.windows) * signal.window_hop_samples
            with torch.inference_mode():
                mel = stretch_mel(stretch, self._log_mel).half().contiguous()
            yield WindowBlock(mel, (starts / signal.sample_rate_hz).astype(np.float32), stretch)
        if self._short:
            self.facts.flags.insert(0, "short")


def stretch_mel(stretch: Stretch, log_mel: LogMel) -> Tensor:
    """Log-mel [windows, segments, mels, frames] of the windows in a stretch; segments that windows share are computed once."""
    signal = log_mel.signal
    sound = torch.from_numpy(stretch.sound)
    if len(sound) < signal.window_samples:
        return _short_mel(sound, log_mel)
    per_hop, uneven = divmod(signal.window_hop_samples, signal.segment_hop_samples)
    if uneven or signal.detrend != "none" or stretch.windows == 1:
        return log_mel.forward(sound.unfold(0, signal.window_samples, signal.window_hop_samples))
    shared = log_mel.of_segments(
        sound.unfold(0, signal.segment_samples, signal.segment_hop_samples)
    )
    index = torch.arange(stretch.windows)[:, None] * per_hop + torch.arange(signal.segments)
    return shared[index]


def _short_mel(sound: Tensor, log_mel: LogMel) -> Tensor:
    """One window from too little sound. Segments that would hold nothing but padding repeat those that hold sound, in turn:
    padding is never heard. Only a recording shorter than one segment has zeros in it, up to that segment's length.
    """
    signal = log_mel.signal
    missing = signal.segment_samples - len(sound)
    if missing > 0:
        sound = torch.nn.functional.pad(sound, (0, missing))
    detrended_sound = sound - sound.mean() if signal.detrend != "none" else sound
    heard = log_mel.of_segments(
        detrended_sound.unfold(0, signal.segment_samples, signal.segment_hop_samples)
    )
    return heard[torch.arange(signal.segments) % len(heard)][None]
