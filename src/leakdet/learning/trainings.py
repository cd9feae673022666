"""Trainings of `learn`: on a handful of new recordings alone, or on the store's and these."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Int

from leakdet.config import LearnConfig, TrainConfig
from leakdet.config.learn import TARGET_BATCH, TARGET_PASSES
from leakdet.detection.decision import fit_rule
from leakdet.detection.detector import MelDetector
from leakdet.detection.kept_scores import ValidationScores
from leakdet.detection.met_recordings import MetRecordings
from leakdet.evaluation.split_scores import score_split
from leakdet.evaluation.training_reference import training_reference
from leakdet.learning.added import contents, without
from leakdet.learning.approach import TARGET
from leakdet.storage.model_file import load_mel_detector
from leakdet.storage.store import StoreSplit
from leakdet.storage.views import SplitView, pooled
from leakdet.training.bare_training import quiet
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.fit import fit, result_checkpoint
from leakdet.training.stopping import needs_val, resolved
from leakdet.training.training_facts import training_facts


@dataclass(frozen=True)
class Material:
    """The new recordings and, for a joint training, train and val of the old store."""

    added: SplitView
    store: Path  # of which the old recordings are, or the new ones
    approach: str
    train: StoreSplit | None = None
    val: StoreSplit | None = None


def train_on(
    config: LearnConfig, material: Material, rows: Int[np.ndarray, " N"], folder: Path
) -> MelDetector:
    """A detector trained with the new recordings `rows`, in `folder`, with its decision rule."""
    settings, train, val = _prepared(config, material, rows)
    data = LeakDataModule(settings, material.store, train, val)
    trainer = fit(settings, data, folder)
    best = load_mel_detector(result_checkpoint(trainer), trust_network=settings.network.name)
    scored = score_split(best, val)
    decision = resolved(settings, data).decision
    offsets = val.recording_offsets
    best.rule = fit_rule(scored.window_prob, offsets, scored.is_leak, decision, fitted_on="val")
    if needs_val(settings, val.recordings):
        scores = best.rule.score(scored.window_prob, offsets)
        best.validation = ValidationScores.of(scores, scored.is_leak)
    known = _trained_on(material, rows)
    facts = training_facts(data)
    counts = {split.name: split.recordings for split in known}
    best.card["training"] |= facts | {"recordings": counts}
    best.reference = training_reference(material.store, known[0], config.seed)
    best.met = _met(known)
    return best


def _prepared(
    config: LearnConfig, material: Material, rows: Int[np.ndarray, " N"]
) -> tuple[TrainConfig, StoreSplit, StoreSplit]:
    """Settings, train and val; val are the training recordings where nothing is chosen by it."""
    new = material.added.take(rows, "train")
    if material.approach == TARGET or material.train is None:
        windows = config.learn.steps // TARGET_PASSES * TARGET_BATCH
        repeats = -(-windows // new.windows)  # of few recordings a pass has each several times
        tiled = new.take(np.tile(np.arange(new.recordings), repeats), "train")
        return quiet(config.target()), tiled, new.take(np.arange(new.recordings), "val")
    joint = weighted_together(material.train, new, config.learn.target_weight)
    if material.val is not None:
        return quiet(config.joint()), joint, material.val
    plain = config.joint()
    fixed = replace(plain, stop=replace(plain.stop, name="fixed"))
    return quiet(fixed), joint, joint.take(np.arange(joint.recordings), "val")


def weighted_together(old: StoreSplit, new: StoreSplit, weight: float) -> SplitView:
    """Recordings of both as one split to train on, the new ones with so many times the weight."""
    both = pooled([old, new])
    factor = np.where(np.arange(both.recordings) < both.recordings - new.recordings, 1.0, weight)
    return replace(both, name="train", factor=factor)


def _trained_on(material: Material, rows: Int[np.ndarray, " N"]) -> list[SplitView]:
    """The recordings that trained and, where it chose something, validated, each once."""
    new = material.added.take(rows, "train")
    if material.approach == TARGET or material.train is None:
        return [new]
    both = replace(pooled([material.train, new]), name="train")
    if material.val is None:
        return [both]
    return [both, without(material.val, [])]


def _met(splits: list[SplitView]) -> MetRecordings | None:
    if not all(split.has("content_sha256") for split in splits):
        return None
    found = {split.name: contents(split).tolist() for split in splits}
    return MetRecordings.of(found, {split.name: split.groups for split in splits})


def train_in_passing(
    config: LearnConfig, material: Material, rows: Int[np.ndarray, " N"], folder: Path
) -> MelDetector:
    """As `train_on`, in a folder of its own that is removed afterwards."""
    try:
        return train_on(config, material, rows, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
