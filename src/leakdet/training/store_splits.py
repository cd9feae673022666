"""The splits of a store that a training uses, opened and checked against each other."""

from dataclasses import dataclass
from pathlib import Path

from leakdet.config import LabelsConfig
from leakdet.errors import InputError
from leakdet.storage.labelled_split import labelled
from leakdet.storage.opening import open_labelled, open_split, split_names, with_surrogates
from leakdet.storage.split_overlap import check_no_overlap
from leakdet.storage.store import StoreSplit


@dataclass(frozen=True)
class Splits:
    """The splits of one training. `test` is None where it has none or the caller keeps it."""

    train: StoreSplit
    val: StoreSplit
    test: StoreSplit | None = None
    surrogates: int = 0  # rows at the end of train that were synthesised, not recorded
    of_whole_store: bool = True  # False: parts that the caller has divided by rules of its own

    @property
    def all(self) -> list[StoreSplit]:
        return [self.train, self.val, *([self.test] if self.test else [])]


def open_splits(store: Path, labels: LabelsConfig | None = None) -> Splits:
    """Open every split of `store` under label settings.

    The test split too: a fault in it is better found now than after training.

    Raises:
        InputError: train or val is missing, a file is damaged, or the splits disagree on signal or
            vocabulary or share a recording, a sound or a group.
    """
    train, surrogates = with_surrogates(open_split(store, "train"), store, labels)
    test = open_labelled(store, "test", labels) if "test" in split_names(store) else None
    splits = Splits(train, open_labelled(store, "val", labels), test, surrogates)
    for other in splits.all[1:]:
        check_agreement(store, train, other)
    check_no_overlap(splits.all)
    return splits


def parts_of_store(store: Path, train: StoreSplit, val: StoreSplit) -> Splits:
    """Two views of a store's recordings in place of its own splits, as in a fold."""
    train, val = (split if split.label_view else labelled(split) for split in (train, val))
    check_agreement(store, train, val)
    return Splits(train, val, of_whole_store=False)


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
