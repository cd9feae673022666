"""Scoring a split with a detector. Train and evaluate share it, so their numbers agree."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from leakdet.detection.decision import DecisionRule
from leakdet.detection.detector import MelDetector
from leakdet.errors import InputError
from leakdet.evaluation.recording_media import StoreEvidence, texts_or_none, window_starts_s
from leakdet.evaluation.scored_recordings import ScoredRecordings
from leakdet.storage.opening import leak_label_of
from leakdet.storage.store import StoreSplit

BLOCK_WINDOWS = 4096


def blocks(split: StoreSplit) -> Iterator[torch.Tensor]:
    """All windows in order, [up to BLOCK_WINDOWS, S, M, T] float16. `InputError` names the recording that cannot be read."""
    for start in range(0, split.windows, BLOCK_WINDOWS):
        yield torch.from_numpy(split.read(start, min(split.windows, start + BLOCK_WINDOWS)))


@dataclass
class SplitScores:
    """A split as a detector heard it: leak probability of every window, and what is true."""

    split: StoreSplit
    window_prob: np.ndarray  # float32 [W]
    is_leak: np.ndarray  # bool [R]

    @property
    def window_is_leak(self) -> np.ndarray:
        return np.repeat(self.is_leak, self.split.windows_per_recording)

    @property
    def recording_of_window(self) -> np.ndarray:
        return np.repeat(np.arange(self.split.recordings), self.split.windows_per_recording)


def score_split(detector: MelDetector, split: StoreSplit, leak: str | None = None) -> SplitScores:
    """Raises `InputError` where the store's mel is not what the detector was trained on."""
    check_same_signal(detector, split)
    leak_id = split.label_names.index(leak_label_of(split, leak))
    prob = [detector.window_prob(block).numpy() for block in blocks(split)]
    return SplitScores(split, np.concatenate(prob), split.label_id == leak_id)


def check_same_signal(detector: MelDetector, split: StoreSplit) -> None:
    where = f"{split.files[0].parent} ({split.name})"
    if detector.signal and split.signal and detector.signal != split.signal:
        differing = "; ".join(detector.signal.differences(split.signal))
        raise InputError(
            f"{where}: the model was trained on another signal (model / store): {differing}. Build the store with it."
        )
    if tuple(split.mel.shape[1:]) != detector.mel_shape:
        raise InputError(
            f"{where}: windows are {split.mel.shape[1:]}, the model takes {detector.mel_shape}."
        )


def scored_recordings(scores: SplitScores, rule: DecisionRule) -> ScoredRecordings:
    """The split with the verdicts of one rule."""
    score = rule.score(scores.window_prob, scores.split.recording_offsets)
    return scored_of(
        scores.split,
        scores.window_prob,
        scores.is_leak,
        score,
        np.full(len(score), rule.threshold),
        rule.probability(score) if rule.calibration else None,
    )


def scored_of(
    split: StoreSplit,
    window_prob: np.ndarray,
    is_leak: np.ndarray,
    score: np.ndarray,
    threshold: np.ndarray,
    probability: np.ndarray | None = None,
) -> ScoredRecordings:
    """Recordings of a split, or of any view of a store, with what was computed for them, and the way to their mel and sound.

    `window_prob` [W], `is_leak`, `score`, `threshold` (one for all, or that of each recording's fold) and `probability` [R].
    """
    durations_s = split.numbers("duration_s", np.nan)
    starts_s = window_starts_s(split, durations_s)
    return ScoredRecordings(
        name=split.name,
        recording_id=split.recording_ids,
        label=np.array(split.label_names)[split.label_id],
        is_leak=is_leak,
        score=score,
        threshold=threshold,
        window_prob=window_prob,
        recording_offsets=split.recording_offsets,
        probability=probability,
        window_start_s=starts_s,
        window_s=split.signal.window_s if split.signal else None,
        duration_s=durations_s if np.isfinite(durations_s).all() else None,
        flags=texts_or_none(split, "flags"),
        groups=split.groups,
        evidence=StoreEvidence(split, starts_s),
    )


def split_by(store: Path) -> list[str]:
    """The group columns that the store's splits keep apart, from its build.json; none where that is unknown."""
    try:
        settings = json.loads((store / "build.json").read_text(encoding="utf-8"))["settings"]
        return [str(column) for column in settings["split"]["group_by"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []
