"""The trainings of `learn`: jointly with the old recordings, or on the new ones alone."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Int, Shaped

from leakdet.config import LearnConfig, TrainConfig
from leakdet.config.learn import TARGET_BATCH, TARGET_PASSES
from leakdet.core.errors import first_few
from leakdet.detection.decision import LIMITS, fit_rule
from leakdet.detection.detector import MelDetector
from leakdet.detection.familiarity import SpectralReference
from leakdet.detection.met import MetRecordings
from leakdet.detection.stored_scores import ValidationScores
from leakdet.evaluation.met import features_of, training_rates, training_reference
from leakdet.evaluation.split_scores import score_split
from leakdet.learning.inputs import contents, without
from leakdet.storage.model_file import load_mel_detector
from leakdet.storage.store import StoreSplit
from leakdet.storage.views import SplitView, pooled
from leakdet.training.callbacks.progress import EpochReport
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.fit import fit, result_checkpoint
from leakdet.training.run_summary import training_facts
from leakdet.training.scratch import quiet
from leakdet.training.settings import needs_val

SENSORS = ("sensor", "logger", "device", "recorder", "hydrophone", "microphone")
PLACES = ("site", "place", "location", "station", "network", "zone")
TARGET, JOINT = "target", "joint"


@dataclass(frozen=True)
class TrainingMode:
    """What is learnt from, `target` or `joint`, and the reason as a sentence."""

    name: str
    reason: str
    doubt: str = ""  # a part of the reason: what speaks for the other one


def chosen_mode(
    wanted: str,
    groups: Mapping[str, Shaped[np.ndarray, " R"]],
    met: MetRecordings | None,
    split_by: list[str],
    has_store: bool,
) -> TrainingMode:
    """The approach that is asked for, or the one that the groups of the new recordings suggest.

    A sensor decides before a place; `split_by` are the columns by which the store was split, which
    count as places. Without a store, only the new recordings are there.
    """
    if wanted != "auto":
        return TrainingMode(wanted, f"learn.from={wanted}")
    if not has_store:
        return TrainingMode(TARGET, "no data.store was given, so only the new recordings are there")
    known: dict[str, set[str]] = {}
    for name, by_role in (met.groups if met else {}).items():
        known[name] = set().union(*by_role.values())
    for column in (*SENSORS, *PLACES, *split_by):
        values = set(groups[column].tolist()) - {""} if column in groups else set()
        if not values or not known.get(column):
            continue
        if new := sorted(values - known[column]):
            if len(new) == len(values):
                return TrainingMode(TARGET, f"{column} {first_few(new)} is new to the model")
            seen = first_few(sorted(values & known[column]))
            return TrainingMode(
                JOINT, f"{column} {seen} is known to the model, {first_few(new)} is not"
            )
        return TrainingMode(JOINT, f"{column} {first_few(sorted(values))} is known to the model")
    return TrainingMode(
        JOINT,
        "no column for sensor or site is known to both the model and the new recordings, so it is "
        "unknown whether they are new to it. If they are of a new sensor: learn.from=target",
    )


def with_doubt(
    approach: TrainingMode, reference: SpectralReference | None, new: StoreSplit
) -> TrainingMode:
    """The approach; its reason says where joint was chosen though most of the sound is unfamiliar.

    That few are unfamiliar says nothing: a new sensor may sound alike.
    """
    if approach.name != JOINT or reference is None:
        return approach
    strange = int((reference.familiarity(features_of(new)) > LIMITS["normal"]).sum())
    if 2 * strange <= new.recordings:
        return approach
    doubt = (
        f"{strange} of the {new.recordings} new recordings are unfamiliar to the model, as at a "
        "new sensor or place: learn.from=target may be the better choice"
    )
    return replace(approach, reason=f"{approach.reason}. {doubt}", doubt=doubt)


@dataclass(frozen=True)
class Material:
    """The new recordings and, for a joint training, train and val of the old store."""

    added: SplitView
    store: Path  # of which the old recordings are, or the new ones
    approach: str
    train: StoreSplit | None = None
    val: StoreSplit | None = None


def train_on(
    config: LearnConfig,
    material: Material,
    rows: Int[np.ndarray, " N"],
    folder: Path,
    callbacks: Sequence[EpochReport] = (),
) -> MelDetector:
    """A detector trained with the new recordings `rows`, in `folder`, with its decision rule."""
    settings, train, val = _prepared(config, material, rows)
    data = LeakDataModule(settings, material.store, train, val)
    trainer = fit(data, folder, callbacks)
    best = load_mel_detector(result_checkpoint(trainer), trust_network=settings.network.name)
    scored = score_split(best, val)
    decision = data.config.decision
    offsets = val.recording_offsets
    best.rule = fit_rule(scored.window_prob, offsets, scored.is_leak, decision, fitted_on="val")
    chosen_by_val = needs_val(settings, val.recordings)
    if chosen_by_val:
        scores = best.rule.score(scored.window_prob, offsets)
        best.validation = ValidationScores.of(scores, scored.is_leak)
    known = _trained_on(material, rows)
    facts = training_facts(data)
    counts = {split.name: split.recordings for split in known}
    best.card["training"] |= facts | {"recordings": counts}
    reference = known[:1] if chosen_by_val else known
    best.reference = training_reference(material.store, reference, config.seed)
    best.sources = training_rates(known[0])
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
    by_split = {split.name: contents(split).tolist() for split in splits}
    return MetRecordings.of(by_split, {split.name: split.groups for split in splits})


def train_in_passing(
    config: LearnConfig,
    material: Material,
    rows: Int[np.ndarray, " N"],
    folder: Path,
    callbacks: Sequence[EpochReport] = (),
) -> MelDetector:
    """As `train_on`, in a folder of its own that is removed afterwards."""
    try:
        return train_on(config, material, rows, folder, callbacks)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
