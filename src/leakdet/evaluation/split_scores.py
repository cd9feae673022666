"""Scoring a split with a detector; train and evaluate share it, so their numbers agree."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float16, Int
from torch import Tensor

from leakdet.core.errors import InputError
from leakdet.core.progress import ProgressCounter
from leakdet.detection.decision import DecisionRule, pool_classes
from leakdet.detection.detector import MelDetector
from leakdet.detection.labels import LabelMap
from leakdet.detection.networks import FeatureSums
from leakdet.evaluation.class_tables import ClassScores, true_classes
from leakdet.evaluation.recording_media import StoreMedia, texts_or_none, window_starts_s
from leakdet.evaluation.scored_recordings import ScoredRecordings
from leakdet.storage.folder import build_facts
from leakdet.storage.store import StoreSplit
from leakdet.storage.views import view_of

BLOCK_WINDOWS = 4096


@dataclass
class SplitScores:
    """A split with the leak probability of each window and the label of each recording."""

    split: StoreSplit
    window_prob: Float[np.ndarray, " W"]
    is_leak: Bool[np.ndarray, " R"]
    familiarity: Float[np.ndarray, " R"] | None = None  # None: the model cannot tell
    other_source: Bool[np.ndarray, " R"] | None = None  # of a rate that no training recording had
    # of a multiclass model: its labels, class probabilities of windows, true class of recordings
    labels: LabelMap | None = None
    class_prob: Float[np.ndarray, "W C"] | None = None
    true_class: Int[np.ndarray, " R"] | None = None

    def classes(self, score: Float[np.ndarray, " R"]) -> ClassScores | None:
        """Class probabilities and true classes of recordings of these scores; None if binary."""
        if self.labels is None or self.class_prob is None or self.true_class is None:
            return None
        offsets = self.split.recording_offsets
        prob = pool_classes(self.class_prob, offsets, self.labels.leaks, score)
        return ClassScores(self.labels, prob, self.true_class)


def score_split(detector: MelDetector, split: StoreSplit) -> SplitScores:
    """Score every window of a split that was opened with its labels.

    Raises `InputError` where the store's mel is not what the detector was trained on, or cannot be
    read.
    """
    check_same_signal(detector, split)
    sums = FeatureSums(split.recording_offsets, split.mel.shape[2]) if detector.reference else None
    labels, prob, class_prob = detector.labels, [], []
    with ProgressCounter(f"scoring {split.name}", split.windows, "windows", closing=False) as done:
        for block in window_blocks(split):
            scores = detector.window_scores(block)
            prob.append(scores.leak_prob.numpy())
            if scores.class_prob is not None:
                class_prob.append(scores.class_prob.numpy())
            if sums is not None:
                sums.add(block)
            done.step(len(block))
    familiarity = None
    if sums is not None and detector.reference is not None:
        familiarity = detector.reference.familiarity(sums.features())
    other = detector.sources.is_other(source_rates_hz(split)) if detector.sources else None
    found = SplitScores(split, np.concatenate(prob), split.is_leak, familiarity, other)
    if labels.tells_classes:
        found.labels, found.class_prob = labels, np.concatenate(class_prob)
        found.true_class = true_classes(labels, view_of(split), split.label_id)
    return found


def source_rates_hz(split: StoreSplit) -> Float[np.ndarray, " R"]:
    """The sample rate of each recording's file; NaN where unknown, as in stores of AILH."""
    rate_hz = split.numbers("source_rate_hz", np.nan).astype(np.float64)
    if (flags := texts_or_none(split, "flags")) is not None:
        rate_hz[flags == "converted"] = np.nan
    return rate_hz


def window_blocks(split: StoreSplit) -> Iterator[Float16[Tensor, "W S M T"]]:
    """All windows in order, up to 4096 at a time. `InputError` names an unreadable recording."""
    for start in range(0, split.windows, BLOCK_WINDOWS):
        yield torch.from_numpy(split.read(start, min(split.windows, start + BLOCK_WINDOWS)))


def check_same_signal(detector: MelDetector, split: StoreSplit) -> None:
    where = f"{split.files[0].parent} ({split.name})"
    if detector.signal and split.signal and detector.signal != split.signal:
        differing = "; ".join(detector.signal.differences(split.signal))
        raise InputError(
            f"{where}: the model was trained on other signal settings (model / store): "
            f"{differing}. Build the store with the model's."
        )
    if tuple(split.mel.shape[1:]) != detector.mel_shape:
        raise InputError(
            f"{where}: windows are {split.mel.shape[1:]}, the model takes {detector.mel_shape}. "
            "Build the store with the model's signal settings."
        )


def apply_rule(scores: SplitScores, rule: DecisionRule) -> ScoredRecordings:
    """Pool the windows of each recording and decide by one rule."""
    score = rule.score(scores.window_prob, scores.split.recording_offsets)
    scored = to_scored_recordings(
        scores.split,
        scores.window_prob,
        scores.is_leak,
        score,
        np.full(len(score), rule.threshold),
        rule.probability(score) if rule.calibration else None,
    )
    return replace(
        scored,
        familiarity=scores.familiarity,
        classes=scores.classes(score),
        reason=rule.undecided(score, scores.familiarity, scores.other_source),
    )


def to_scored_recordings(
    split: StoreSplit,
    window_prob: Float[np.ndarray, " W"],
    is_leak: Bool[np.ndarray, " R"],
    score: Float[np.ndarray, " R"],
    threshold: Float[np.ndarray, " R"],
    probability: Float[np.ndarray, " R"] | None = None,
) -> ScoredRecordings:
    """Join scores with what the store holds of the recordings of a split or view."""
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
        duration_s=durations_s if np.isfinite(durations_s).all() else None,
        flags=texts_or_none(split, "flags"),
        groups=split.groups,
        media=StoreMedia(split, starts_s),
    )


def split_group_by(store: Path) -> list[str]:
    """The group columns that the store's splits keep apart, from build.json; [] where unknown."""
    try:
        return [str(column) for column in _build_settings(store)["split"]["group_by"]]
    except (KeyError, TypeError):
        return []


def is_synthetic(store: Path) -> bool | None:
    """True if the store holds the generated recordings of the demo; None where unknown."""
    source = _build_settings(store).get("source")
    return None if source is None else source == "demo"


def _build_settings(store: Path) -> dict[str, Any]:
    """The settings that built the store, from its build.json; empty where there are none."""
    settings = build_facts(store).get("settings")
    return settings if isinstance(settings, dict) else {}
