"""Windows of a recording scored by an `.onnx` file, which takes sound, in bounded memory."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Float16, Float32
from torch import Tensor

from leakdet.acoustics.audio import SoundSource, SoundStream, WaveformFacts
from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.windows import Chunk, MelStream
from leakdet.config import SignalConfig
from leakdet.detection.band_features import window_moments
from leakdet.detection.detector import MelDetector
from leakdet.exporting.onnx_detector import OnnxDetector, moments_of


class WindowsScored(NamedTuple):
    """Leak and class probability, start and liveness of windows; summed moments of live ones."""

    prob: Float32[np.ndarray, " W"]
    class_prob: Float32[np.ndarray, "W C"]
    start_s: Float32[np.ndarray, " W"]
    live: Bool[np.ndarray, " W"]
    moments: Float[np.ndarray, "1 2 M"]


def scored_windows(
    mel: Float16[Tensor, "W S M T"],
    start_s: Float32[np.ndarray, " W"],
    live: Bool[np.ndarray, " W"],
    detector: MelDetector,
) -> WindowsScored:
    """Windows scored by their log-mel."""
    prob, classes = detector.window_scores(mel)
    class_prob = np.zeros((len(prob), 0), np.float32) if classes is None else classes.numpy()
    moments = (live @ window_moments(mel).reshape(len(prob), -1)).reshape(1, 2, -1)
    return WindowsScored(prob.numpy(), class_prob, start_s, live, moments)


class Pieces:
    """Cuts a stream of sound into pieces whose windows are those of the whole.

    Each piece but the first begins `lead` windows early, for what a filter needs to settle. Each
    but the last has `most` windows after them.
    """

    def __init__(self, signal: SignalConfig, lead: int, most: int) -> None:
        self._signal, self._lead, self._most = signal, lead, most
        self._pending = np.empty(0, np.float32)
        self._skip = 0  # windows at its start that were scored before

    def add(self, sound: Float32[np.ndarray, " N"]) -> Iterator[tuple[np.ndarray, int]]:
        """Take sound; yield what is whole: pieces, and how many windows of each to leave out."""
        self._pending = np.concatenate([self._pending, sound])
        window, hop = self._signal.window_samples, self._signal.window_hop_samples
        # so much that the next piece has a window of its own, however little sound follows
        while len(self._pending) >= (self._skip + self._most) * hop + window:
            stop = (self._skip + self._most - 1) * hop + window
            yield self._pending[:stop], self._skip
            following = self._skip + self._most
            kept = max(0, following - self._lead)
            self._pending, self._skip = self._pending[kept * hop :], following - kept

    def last(self) -> tuple[np.ndarray, int]:
        return self._pending, self._skip


class _TappedSound(SoundStream):
    """A stream that also keeps its sound as it is before the high-pass, which the graph runs."""

    before: list[np.ndarray]

    def _noted(self, sound: np.ndarray) -> np.ndarray:
        self.before.append(sound)
        return super()._noted(sound)


class _LiveWindows(MelStream):
    """Starts, liveness and flags of windows as for any model; log-mel only of a short recording."""

    def __init__(self, source: SoundSource, log_mel: LogMel, channel: int) -> None:
        super().__init__(source, log_mel)
        self._sound: _TappedSound = _TappedSound(source, log_mel.signal, channel, with_hum=True)
        self._sound.before = []

    def _mel(self, chunk: Chunk) -> Tensor:
        if len(chunk.sound) < self._log_mel.signal.window_samples:
            return super()._mel(chunk)
        return torch.zeros(chunk.windows, 0, 0, 0, dtype=torch.float16)

    def taken(self) -> Float32[np.ndarray, " N"]:
        """Sound that came since the last call."""
        blocks, self._sound.before = self._sound.before, []
        return np.concatenate([np.empty(0, np.float32), *blocks])


def sound_scores(
    source: SoundSource, detector: OnnxDetector, log_mel: LogMel, channel: int
) -> tuple[WaveformFacts, WindowsScored]:
    """Score a recording's windows piece by piece; of one without a whole window, its log-mel."""
    stream = _LiveWindows(source, log_mel, channel)
    pieces = Pieces(log_mel.signal, detector.lead_windows, detector.piece_windows)
    starts, live, mels, outputs = [], [], [], []
    for block in stream:
        starts.append(block.window_start_s)
        live.append(block.live)
        mels.append(block.mel)
        outputs += [_outputs(detector, *piece) for piece in pieces.add(stream.taken())]
    outputs += [_outputs(detector, *piece) for piece in pieces.add(stream.taken())]
    start_s, is_live = np.concatenate(starts), np.concatenate(live)
    if "short" in stream.facts.flags:
        return stream.facts, scored_windows(torch.cat(mels), start_s, is_live, detector)
    outputs.append(_outputs(detector, *pieces.last()))
    prob, classes, moments = map(np.concatenate, zip(*outputs, strict=True))
    moments = moments.sum(axis=0, keepdims=True)
    return stream.facts, WindowsScored(prob, classes, start_s, is_live, moments)


def _outputs(
    detector: OnnxDetector, sound: Float32[np.ndarray, " N"], skip: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probability and classes of the windows behind the first `skip`, and their moments."""
    outputs = detector.sound_scores(sound, skip)
    prob = outputs["window_prob"][skip:]
    classes = outputs.get("class_prob", np.zeros((len(prob) + skip, 0), np.float32))[skip:]
    return prob, classes, moments_of(outputs["moments"])
