"""One recording from sound to verdict, in bounded memory, whatever its length."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from leakdet.acoustics.array_recording import ArrayRecording
from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.windows import MelStream, WindowBlock
from leakdet.detection.detector import MelDetector
from leakdet.errors import InputError
from leakdet.scoring.verdict import Verdict, Window

BATCH_WINDOWS = 64  # windows of one recording that are scored together

Source = Path | ArrayRecording


def score_recording(source: Source, detector: MelDetector, log_mel: LogMel) -> Verdict:
    """The verdict on a recording; a recording that cannot be scored gives one with an error."""
    try:
        return _scored(source, detector, log_mel)
    except InputError as error:
        reason = str(error)
    # one file must never stop the others, whatever a decoder raises
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    return Verdict(_path(source), None, None, round(detector.rule.threshold, 6), error=reason)


def _scored(source: Source, detector: MelDetector, log_mel: LogMel) -> Verdict:
    stream = MelStream(source, log_mel)
    probs, starts_s = [], []
    for mel, start_s in _batches(stream):
        probs.append(detector.window_prob(mel).numpy())
        starts_s.append(start_s)
    prob, start = np.concatenate(probs), np.concatenate(starts_s)
    facts, rule = stream.facts, detector.rule
    end = np.minimum(start + log_mel.signal.window_s, facts.duration_s)
    score = rule.score(prob, np.array([0, len(prob)]))
    return Verdict(
        path=_path(source),
        decision="leak" if rule.decide(score)[0] else "no_leak",
        leak_prob=round(float(score[0]), 6),
        threshold=round(rule.threshold, 6),
        windows=[
            Window(round(float(a), 3), round(float(b), 3), round(float(p), 6))
            for a, b, p in zip(start, end, prob, strict=True)
        ],
        leak_windows=int((prob >= rule.threshold).sum()),
        duration_s=round(facts.duration_s, 3),
        source_rate_hz=facts.source_rate_hz,
        flags=list(facts.flags),
    )


def embed_recording(
    source: Source, detector: MelDetector, log_mel: LogMel
) -> Float[np.ndarray, "W F"]:
    """Features of every window before the heads, float32. Raises `InputError` naming the file."""
    try:
        batches = _batches(MelStream(source, log_mel))
        return np.concatenate([detector.embed(mel).numpy() for mel, _ in batches])
    except InputError as error:
        raise InputError(f"{_path(source) or 'the array'}: {error}") from error


def _path(source: Source) -> str | None:
    return None if isinstance(source, ArrayRecording) else str(source)


def _batches(stream: MelStream) -> Iterator[tuple[Tensor, np.ndarray]]:
    """Mel and start times of about BATCH_WINDOWS windows at a time.

    Batches depend on this recording alone, so its score does too.
    """
    blocks, windows = [], 0
    for block in stream:
        blocks.append(block)
        windows += len(block.mel)
        if windows >= BATCH_WINDOWS:
            yield _joined(blocks)
            blocks, windows = [], 0
    if blocks:
        yield _joined(blocks)


def _joined(blocks: list[WindowBlock]) -> tuple[Tensor, np.ndarray]:
    mel = torch.cat([block.mel for block in blocks])
    return mel, np.concatenate([block.window_start_s for block in blocks])
