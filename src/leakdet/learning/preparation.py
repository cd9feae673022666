"""The inputs of a learning, checked: the old model, its store, the new recordings, the mode."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Int

from leakdet.acoustics.mel import band_centres_hz
from leakdet.config import LearnConfig
from leakdet.core.errors import InputError, SettingsError, first_few
from leakdet.detection.detector import MelDetector
from leakdet.detection.drift import find_drift
from leakdet.evaluation.comparison import labels_for
from leakdet.evaluation.met import features_of, met_roles
from leakdet.evaluation.split_scores import check_same_signal, split_group_by
from leakdet.learning.gate import (
    HELD_OUT,
    HeldOut,
    fold_keys,
    held_out_group,
    known_of_others,
    unmet_test,
)
from leakdet.learning.inputs import (
    NewRecordings,
    Vocabulary,
    add_recordings,
    contents,
    known_contents,
    recorded_times,
    require_both_classes,
    time_notes,
    without,
)
from leakdet.learning.training import JOINT, PLACES, Material, TrainingMode, chosen_mode, with_doubt
from leakdet.storage.model_card import model_in
from leakdet.storage.model_file import load_mel_detector
from leakdet.storage.opening import open_labelled, open_split, split_names
from leakdet.storage.store import StoreSplit
from leakdet.storage.views import SplitView, view_of


def moved_sites(old: MelDetector, split: SplitView) -> list[str]:
    """A sentence for each site that moved; none where sites or training are unknown, or too few."""
    training = None if old.reference is None else old.reference.distribution
    column = next((name for name in PLACES if name in split.groups), None)
    if training is None or column is None or old.signal is None:
        return []
    features, half = features_of(split).astype(np.float64), training.shape[1] // 2
    drift = find_drift(
        features[:, :half],
        np.zeros(split.recordings),
        split.groups[column].astype(str),
        recorded_times(split.groups, split.recordings),
        training[:, :half],
    )
    centres_hz = band_centres_hz(old.signal).tolist()
    return [move.sentence(centres_hz) for move in drift.moves]


ADDED = "added"  # in the run's folder: the store of the new recordings


@dataclass(frozen=True)
class LearningInputs:
    """The old model and its splits, the new recordings, and how they will be learnt.

    `rows` of the new recordings train, those of `held_out` judge.
    """

    parent: Path
    old: MelDetector
    splits: dict[str, StoreSplit]
    added: NewRecordings
    material: Material
    approach: TrainingMode
    held_out: HeldOut | None
    rows: Int[np.ndarray, " N"]
    notes: list[str]

    @property
    def unverified(self) -> SplitView | None:
        """New recordings without a label that train, none of the group that judges."""
        split, held_out = self.added.unverified, self.held_out
        if split is None or held_out is None or held_out.column not in split.groups:
            return split
        rows = np.flatnonzero(split.groups[held_out.column] != held_out.value)
        return split.take(rows, split.name) if len(rows) else None

    @property
    def judges(self) -> SplitView | None:
        """Recordings that train in no round: those held out, else the old store's test split."""
        if self.held_out is not None:
            view = self.added.split.take(self.held_out.rows, HELD_OUT)
            return view if 0 < view.is_leak.sum() < view.recordings else None
        test = self.splits.get("test")
        new = contents(self.added.split).tolist()
        return unmet_test(self.old, test, new) if test else None

    def for_fold(self, rows: Int[np.ndarray, " N"]) -> "LearningInputs":
        """The same where `rows` train and a model judges the others.

        Unverified recordings of a site (or sensor, or file) that is judged do not train either.
        """
        split, unverified = self.added.split, self.added.unverified
        if unverified is None:
            return self
        keys, unit = fold_keys(split.groups, split.recording_ids, split.is_leak)
        chosen = known_of_others(
            unverified.groups, unverified.recording_ids, unit, np.delete(keys, rows)
        )
        left = unverified.take(chosen, unverified.name) if len(chosen) else None
        return replace(self, added=replace(self.added, unverified=left), rows=rows)

    def counts(self) -> dict[str, int]:
        """New recordings that train, by class."""
        leaks = int(self.added.split.is_leak[self.rows].sum())
        return {"leak": leaks, "no_leak": len(self.rows) - leaks}

    def introduction(self) -> str:
        """What will be learnt from what, as lines for the screen."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        counts, held_out = self.counts(), self.held_out
        yield f"from     {self.approach.name}: {self.approach.reason}"
        yield f"new      {counts['leak']} with a leak and {counts['no_leak']} without to learn from"
        if self.unverified is not None:
            yield f"         {self.unverified.recordings} unverified, as a model will call them"
        elif self.added.unconfirmed:
            yield f"         rows without a label, which are not learnt: {self.added.unconfirmed}"
        if held_out:
            yield f"judges   {held_out.column} {held_out.value}: {len(held_out.rows)} held out"
        yield from (f"note     {note}" for note in self.notes)


def prepare(config: LearnConfig, folder: Path) -> LearningInputs:
    """Open, read and check; the new recordings are extracted into a store in `folder`."""
    parent = model_in(Path(config.model)).resolve()  # a link may be moved later
    source = Path(str(config.learn.new))
    old = load_mel_detector(parent, trust_network=config.network.name)
    if old.signal is None:
        raise InputError(f"{parent}: it does not say its signal, so no sound can be read for it.")
    splits = _old_splits(config, old)
    if config.learn.from_ == JOINT and not splits:
        raise SettingsError(
            "learn.from=joint: data.store must be given, the store that trained the old model."
        )
    known = Vocabulary.of_view(view_of(splits["train"])) if splits else None
    vocabulary = known or Vocabulary.of_model(old.labels)
    fewest = config.learn.min_per_class
    added = add_recordings(
        source, folder / ADDED, old.signal, vocabulary, fewest, config.learn.unverified
    )
    check_same_signal(old, added.split)
    split_by = split_group_by(Path(config.data.store)) if config.data.store else []
    approach = chosen_mode(config.learn.from_, added.split.groups, old.met, split_by, bool(splits))
    if config.learn.from_ == "auto":
        approach = with_doubt(approach, old.reference, added.split)
    notes = _met_notes(old, added) + moved_sites(old, added.split)
    notes += time_notes(added.split.groups)
    if approach.name == JOINT:
        added, splits, remarks = _apart(added, splits, vocabulary, fewest, str(source))
        notes += remarks
    split = added.split
    held_out = held_out_group(config.learn.hold_out, split.groups, split.is_leak, fewest, split_by)
    rows = np.setdiff1d(np.arange(split.recordings), held_out.rows if held_out else [])
    joint = approach.name == JOINT
    material = Material(
        split,
        Path(str(config.data.store)) if joint else added.store,
        approach.name,
        splits["train"] if joint else None,
        splits.get("val") if joint else None,
    )
    return LearningInputs(parent, old, splits, added, material, approach, held_out, rows, notes)


def _old_splits(config: LearnConfig, old: MelDetector) -> dict[str, StoreSplit]:
    """The splits of the store that trained the old model; none where none is given."""
    if config.data.store is None:
        return {}
    store = Path(config.data.store)
    labels = labels_for(old.labels, open_split(store, "train"), config.labels)
    splits = {name: open_labelled(store, name, labels) for name in split_names(store)}
    for split in splits.values():
        check_same_signal(old, split)
    return splits


def _met_notes(old: MelDetector, added: NewRecordings) -> list[str]:
    roles = met_roles(old.met, added.split)
    if roles is None:
        return ["whether the old model has met the new recordings is unknown: it does not say"]
    met = added.split.recording_ids[roles != ""].tolist()
    if not met:
        return []
    return [
        f"the old model has met {len(met)} of the new recordings in training ({first_few(met)}): "
        "they are no evidence of which model is better"
    ]


def _apart(
    added: NewRecordings,
    splits: dict[str, StoreSplit],
    vocabulary: Vocabulary,
    fewest: int,
    where: str,
) -> tuple[NewRecordings, dict[str, StoreSplit], list[str]]:
    """New and old recordings without those that are in both, so that none counts twice.

    What the store has alike is not new; what it has with another meaning is corrected.
    """
    split, notes = added.split, []
    alike, corrected = known_contents(split, list(splits.values()))
    if alike.any():
        names = first_few(split.recording_ids[alike].tolist())
        notes.append(f"{alike.sum()} of the new recordings are in the store already: {names}")
    if corrected.any():
        names = first_few(split.recording_ids[corrected].tolist())
        notes.append(
            f"{corrected.sum()} of the new recordings are in the store with the opposite label, "
            f"and the new one counts: {names}"
        )
        unwanted = contents(split)[corrected].tolist()
        splits = {name: without(old, unwanted) for name, old in splits.items()}
    unverified = added.unverified
    if unverified is not None:
        stored = np.concatenate([contents(old) for old in splits.values()])
        fresh = np.flatnonzero(~np.isin(contents(unverified), stored))
        unverified = unverified.take(fresh, unverified.name) if len(fresh) else None
    new = np.flatnonzero(~alike)
    labels = [split.label_names[label] for label in split.label_id[new]]
    what = f"{where}, of what the store does not have" if alike.any() else where
    require_both_classes(labels, vocabulary, fewest, what)
    distinct = replace(added, split=split.take(new, split.name), unverified=unverified)
    return distinct, splits, notes
