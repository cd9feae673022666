"""The splits that a training uses, without what the model it starts from has met."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped

from leakdet.config import LabelsConfig, TrainConfig
from leakdet.core.errors import InputError, first_few
from leakdet.core.messages import LOG
from leakdet.core.process import is_child
from leakdet.detection.met import ROLES, MetRecordings
from leakdet.evaluation.met import met_roles, role_counts
from leakdet.storage.model_card import model_in
from leakdet.storage.model_file import load_mel_detector
from leakdet.storage.opening import open_labelled, split_names
from leakdet.storage.overlap import check_no_overlap
from leakdet.storage.store import StoreSplit
from leakdet.storage.views import labelled, pooled
from leakdet.training.settings import needs_val


@dataclass(frozen=True)
class Splits:
    """The splits of one training. `test` is None where it has none or the caller keeps it."""

    train: StoreSplit
    val: StoreSplit
    test: StoreSplit | None = None
    of_whole_store: bool = True  # False: parts that the caller has divided by rules of its own

    @property
    def all(self) -> list[StoreSplit]:
        return [self.train, self.val, *([self.test] if self.test else [])]


def open_splits(store: Path, labels: LabelsConfig | None = None) -> Splits:
    """Open every split of `store` under label settings.

    The test split too: a fault in it is better found now than after training.
    """
    train = open_labelled(store, "train", labels)
    if list(store.glob("surrogates*.h5")):
        LOG.warning(
            f"{store}: its surrogates, which an earlier version made and trained on, are not read. "
            "augment.* change the recordings of train (docs/augmentation.md)."
        )
    test = open_labelled(store, "test", labels) if "test" in split_names(store) else None
    splits = Splits(train, open_labelled(store, "val", labels), test)
    for other in splits.all[1:]:
        check_agreement(store, train, other)
    check_no_overlap(splits.all)
    return splits


def parts_of_store(store: Path, train: StoreSplit, val: StoreSplit) -> Splits:
    """Two views of a store's recordings in place of its own splits, as in a fold."""
    train, val = (split if split.label_view else labelled(split) for split in (train, val))
    check_agreement(store, train, val)
    return Splits(train, val, of_whole_store=False)


def every_recording(config: TrainConfig, store: Path) -> tuple[StoreSplit, StoreSplit]:
    """Train and val of a training on all recordings: val trains too where it chooses nothing."""
    splits = open_splits(store, config.labels)
    chooses = needs_val(config, splits.val.recordings)
    view = pooled([split for split in splits.all if not (chooses and split is splits.val)])
    return view.take(np.arange(view.recordings), "train"), splits.val


def check_agreement(store: Path, train: StoreSplit, other: StoreSplit) -> None:
    """Raise `InputError` where two splits differ in vocabulary, signal or window shape."""
    names = f"{train.files[0].name} and {other.files[0].name}"
    if [n.casefold() for n in train.label_names] != [n.casefold() for n in other.label_names]:
        raise InputError(
            f"{store}: {names} have different labels, {train.label_names} and {other.label_names}. "
            "Build both with the same vocabulary."
        )
    if train.signal != other.signal or train.mel.shape[1:] != other.mel.shape[1:]:
        differing = train.signal.differences(other.signal) if train.signal and other.signal else []
        shapes = f"windows of {train.mel.shape[1:]} and {other.mel.shape[1:]}"
        raise InputError(
            f"{store}: {names} were built with different signal settings "
            f"({'; '.join(differing) or shapes}). Build them together."
        )


@dataclass(frozen=True)
class StartedFrom:
    """Source of the first weights, and what trained them; None: that file does not say."""

    source: str
    met: MetRecordings | None

    def roles(self, split: StoreSplit) -> Shaped[np.ndarray, " R"] | None:
        """The role in which it has met each recording, blank for none; None where unknown."""
        return met_roles(self.met, split)

    def account(self, splits: Splits) -> dict[str, Any]:
        """The entry `started_from` of metrics.json: `model`, and by split what it had met."""
        judged = [splits.val, *([splits.test] if splits.test else [])]
        return {"model": self.source, **{split.name: self._counts(split) for split in judged}}

    def _counts(self, split: StoreSplit) -> dict[str, int] | None:
        roles = self.roles(split)
        if roles is None:
            return None
        return {"recordings": split.recordings, **role_counts(roles)}

    def sentence(self, splits: Splits) -> str:
        """Clause on what it has met of the recordings that validate and test the new training."""
        account = self.account(splits)
        counts = {name: account[name] for name in ("val", "test") if name in account}
        if None in counts.values():
            return (
                f"from {self.source}; whether that model has met the validation or test "
                "recordings is unknown"
            )
        names = {"val": "validation", "test": "test"}
        parts = [
            f"of {count['recordings']} {names[name]} recordings it was trained on "
            f"{count['train']} and chosen on {count['val']}"
            for name, count in counts.items()
        ]
        return f"from {self.source}: {'; '.join(parts)}"

    def warnings(self, store: Path, splits: Splits, val_chooses: bool) -> list[str]:
        """Sentences on what makes scores too good; `val_chooses` the checkpoint or threshold."""
        sentences = []
        trained = _ids(splits.val, self.roles(splits.val), ("train",))
        if trained:
            count, of_all = len(trained), splits.val.recordings
            if val_chooses and count == of_all:
                raise InputError(
                    f"init_from={self.source}: that model was trained on all {count} validation "
                    f"recordings of {store}, so they would measure its memory: an F1 near 1 from "
                    "the first epoch, and a threshold that fits no new recording. Build the store "
                    "with validation recordings that it has not met (a split column in the CSV), "
                    "or choose nothing by them: stop.name=fixed decision.policy=fixed"
                )
            effect = "so checkpoint and threshold are chosen too hopefully" if val_chooses else ""
            sentences.append(
                f"{self.source} was trained on {count} of {of_all} validation recordings "
                f"({first_few(trained)}). On these, val measures its memory"
                f"{', ' + effect if effect else ''}."
            )
        if splits.test and (met := _ids(splits.test, self.roles(splits.test), ROLES)):
            result = "they are left out of the test results"
            if len(met) == splits.test.recordings:
                result = "the test results are no evidence"
            sentences.append(
                f"{self.source} has met {len(met)} of {splits.test.recordings} test recordings "
                f"({first_few(met)}): {result}."
            )
        return sentences

    def joined(self, own: MetRecordings) -> MetRecordings | None:
        """Recordings that the new model has met, by itself or by its start; None: unknown."""
        return None if self.met is None else own.joined(self.met)

    def state(self) -> dict[str, Any]:
        """Plain values and tensors for a checkpoint, from which a resumed run knows its start."""
        met = None if self.met is None else {**self.met.tensors(), "groups": self.met.groups}
        return {"source": self.source, "met": met}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "StartedFrom":
        met = state["met"]
        known = None if met is None else MetRecordings.from_file(met, met["groups"])
        return cls(state["source"], known)


def _ids(
    split: StoreSplit, roles: Shaped[np.ndarray, " R"] | None, wanted: Sequence[str]
) -> list[str]:
    if roles is None:
        return []
    return [str(name) for name in split.recording_ids[np.isin(roles, wanted)]]


def started_from(config: TrainConfig) -> StartedFrom | None:
    """Recordings that the model of `init_from` has met: a checkpoint's by its run's model."""
    if config.init_from is None:
        return None
    source = model_in(Path(config.init_from))
    return StartedFrom(
        str(source), load_mel_detector(source, trust_network=config.network.name).met
    )


def require_unmet(config: TrainConfig, view: StoreSplit, setting: str) -> None:
    """Refuse to hold out recordings that the model of `init_from` has met, as `setting` asks."""
    start = started_from(config)
    if start is None:
        return
    roles = start.roles(view)
    if roles is None:
        raise InputError(
            f"init_from={start.source}: whether that model has met the recordings that {setting} "
            "holds out is unknown, because model or store do not say. Start without init_from."
        )
    if met := _ids(view, roles, ROLES):
        raise InputError(
            f"init_from={start.source}: that model has met {len(met)} of {view.recordings} "
            f"recordings that {setting} holds out ({first_few(met)}), so their scores would "
            "measure its memory. Start without init_from, or from a model of other recordings."
        )


def warn_of_start(
    start: StartedFrom | None, store: Path, splits: Splits, val_chooses: bool
) -> None:
    """Log what makes the coming scores too good; `InputError` as `StartedFrom.warnings`."""
    for warning in start.warnings(store, splits, val_chooses) if start else ():
        if not is_child():
            LOG.warning(warning)
