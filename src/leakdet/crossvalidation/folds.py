"""Folds over all recordings of a store: whole groups are held out, a part of the rest validates.

Nothing of a held-out group reaches training, early stopping or the threshold. Validation and
training share a group only where there are too few groups to avoid it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Int, Shaped

from leakdet.core.errors import InputError, first_few
from leakdet.storage.folds import (
    balance,
    class_counts,
    column_of,
    give_both_classes,
    hold_out_groups,
)

LABEL = "label"


@dataclass(frozen=True)
class Fold:
    """Rows of the recordings that one fold trains on, validates with and is tested with.

    `val_by` is what training and validation do not share: group, recording, or none where val
    trains too, since it chooses nothing.
    """

    name: str
    train: Int[np.ndarray, " A"]
    val: Int[np.ndarray, " B"]
    test: Int[np.ndarray, " C"]
    val_by: str  # group | recording | none

    def with_val_in_training(self) -> "Fold":
        """The fold whose training part includes its validation part."""
        return replace(self, train=np.concatenate([self.train, self.val]), val_by="none")

    @property
    def fitted(self) -> Int[np.ndarray, " A"]:
        """Rows that training, early stopping or the threshold sees."""
        if self.val_by == "none":
            return self.train
        return np.concatenate([self.train, self.val])


def select_rows(
    columns: dict[str, np.ndarray], where: dict[str, Sequence[str]], setting: str
) -> Int[np.ndarray, " N"]:
    """Rows that hold one of the values of `where` in each of its columns.

    Raises `InputError` on unknown columns and values, and where no row is left.
    """
    selected = np.ones(len(next(iter(columns.values()))), bool)
    for column, values in where.items():
        existing = column_of(columns, column, setting)
        unknown = sorted(set(values) - set(existing.tolist()))
        if unknown:
            raise InputError(
                f"{setting}.{column}: no recording has {first_few(unknown)}; "
                f"there are {first_few(sorted(set(existing.tolist())))}."
            )
        selected &= np.isin(existing, list(values))
    if not selected.any():
        raise InputError(f"{setting}={dict(where)}: no recording fits all of it.")
    return np.flatnonzero(selected)


def make_folds(
    groups: Shaped[np.ndarray, " R"],
    is_leak: Bool[np.ndarray, " R"],
    folds: int,
    val_fraction: float,
    seed: int,
    files: Shaped[np.ndarray, " R"] | None = None,
) -> list[Fold]:
    """Folds over recordings with a known group: every such recording is tested once.

    `folds` 0 leaves out one group at a time; otherwise whole groups are distributed over so many
    folds, stratified by label. Of the rest, about `val_fraction` validates: whole groups where
    these come near it, single recordings otherwise. Recordings of one of `files` stay together.
    """
    result = []
    key_of_file = np.arange(len(groups)) if files is None else files
    for name, rest, held_out in hold_out_groups(groups, is_leak, folds, seed, files):
        keys = (groups[rest], key_of_file[rest])
        in_val, val_by = _validation_part(*keys, is_leak[rest], val_fraction, seed, name)
        result.append(Fold(name, rest[~in_val], rest[in_val], held_out, val_by))
    return result


def _validation_part(
    groups: Shaped[np.ndarray, " R"],
    files: Shaped[np.ndarray, " R"],
    is_leak: Bool[np.ndarray, " R"],
    val_fraction: float,
    seed: int,
    name: str,
) -> tuple[Bool[np.ndarray, " R"], str]:
    """Mask of the rows that validate, and what they do not share: a group or a recording."""
    for keys, val_by in ((groups, "group"), (files, "recording")):
        _, key_of_row = np.unique(keys, return_inverse=True)
        counts = class_counts(key_of_row, is_leak, int(key_of_row.max()) + 1)
        part_of_key = balance(counts, np.array([1 - val_fraction, val_fraction]), seed)
        part_of_key = give_both_classes(part_of_key, counts, np.array([False, True]), [0, 1])
        in_val = part_of_key[key_of_row] == 1
        both = all(0 < is_leak[part].sum() < part.sum() for part in (in_val, ~in_val))
        near = val_fraction / 2 <= in_val.mean() <= 1.5 * val_fraction
        if both and (val_by == "recording" or near):
            return in_val, val_by
    raise InputError(
        f"Leaving out {name}, {int(is_leak.sum())} leaks and {int((~is_leak).sum())} others are "
        "left: too few to train and to validate with both "
        f"(crossval.val_fraction={val_fraction:g})."
    )
