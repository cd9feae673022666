"""Dividing all recordings of a store into folds: whole groups are held out, and validation is carved from what is left.

Nothing of a held-out group reaches training, early stopping or the threshold: a fold's three parts share no group but that
validation and training may share one where there are too few groups to do without.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from leakdet.building.splits import balance, give_both_classes
from leakdet.errors import InputError, first_few

RECORDING = "recording"  # in place of a column: every recording is a group of its own
LABEL = "label"


@dataclass(frozen=True)
class Fold:
    """Rows of the recordings that one fold trains on, validates with and is tested with."""

    name: str
    train: Int[np.ndarray, " A"]
    val: Int[np.ndarray, " B"]
    test: Int[np.ndarray, " C"]
    val_by: str  # group | recording: what validation shares with training no part of


def chosen_rows(
    columns: dict[str, np.ndarray], where: dict[str, Sequence[str]], setting: str
) -> Int[np.ndarray, " R"]:
    """Rows whose every column of `where` holds one of its values. Raises `InputError` on unknown columns and values."""
    kept = np.ones(len(next(iter(columns.values()))), bool)
    for column, values in where.items():
        found = _column(columns, column, setting)
        unknown = sorted(set(values) - set(found.tolist()))
        if unknown:
            raise InputError(
                f"{setting}.{column}: no recording has {first_few(unknown)}; "
                f"there are {first_few(sorted(set(found.tolist())))}."
            )
        kept &= np.isin(found, list(values))
    if not kept.any():
        raise InputError(f"{setting}={dict(where)}: no recording fits all of it.")
    return np.flatnonzero(kept)


def group_keys_of(
    columns: dict[str, np.ndarray], group_by: Sequence[str], recording_ids: np.ndarray, setting: str
) -> np.ndarray:
    """The group of each recording, [R] of str; blank where one of its columns is, since its group is then unknown."""
    if list(group_by) == [RECORDING]:
        return recording_ids
    if RECORDING in group_by or not group_by:
        raise InputError(f"{setting}={list(group_by)}: give `recording` alone, or group columns.")
    parts = [_column(columns, column, setting) for column in group_by]
    return np.array([" / ".join(key) if all(key) else "" for key in zip(*parts, strict=True)])


def _column(columns: dict[str, np.ndarray], column: str, setting: str) -> np.ndarray:
    if column not in columns:
        raise InputError(
            f"{setting}: {column!r} is no group column of this store; it has {first_few(sorted(columns)) or 'none'}."
        )
    return columns[column]


def make_folds(
    groups: np.ndarray, is_leak: Bool[np.ndarray, " R"], folds: int, val_fraction: float, seed: int
) -> list[Fold]:
    """Folds over recordings with a known group: every such recording is tested once.

    `folds` 0 leaves out one group at a time; otherwise whole groups are dealt into so many folds, stratified by label. Of
    what is left, about `val_fraction` validates: whole groups where these come near it, single recordings otherwise.

    Raises:
        InputError: fewer groups than folds or than two, or a fold whose training part lacks a class; with the counts.
    """
    made = []
    for label, rest, held_out in dealt(groups, is_leak, folds, seed):
        train, val, val_by = _carve(groups[rest], is_leak[rest], val_fraction, seed, label)
        made.append(Fold(label, rest[train], rest[val], held_out, val_by))
    return made


def dealt(
    groups: np.ndarray, is_leak: Bool[np.ndarray, " R"], folds: int, seed: int
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """A name, the rows that are left and the rows held out, fold by fold. Raises `InputError` where folds stay empty."""
    known = np.flatnonzero(groups != "")
    names, number = np.unique(groups[known], return_inverse=True)
    if len(names) < max(2, folds):
        raise InputError(
            f"{len(names)} groups cannot make {max(2, folds)} folds: {first_few(names.tolist())}. Group by a finer column, "
            "by recording, or ask for fewer folds."
        )
    fold_of_group = np.arange(len(names))
    if folds:
        counts = _counts(number, is_leak[known], len(names))
        fold_of_group = balance(counts, np.full(folds, 1 / folds), seed)
        filled = len(np.unique(fold_of_group))
        if filled < folds:
            raise InputError(
                f"{len(names)} groups of such sizes and labels fill only {filled} of {folds} folds. Ask for fewer "
                "folds, or group by a finer column."
            )
    for fold in np.unique(fold_of_group):
        held_out = fold_of_group[number] == fold
        yield f"fold {fold + 1}" if folds else str(names[fold]), known[~held_out], known[held_out]


def _counts(number: np.ndarray, is_leak: np.ndarray, groups: int) -> np.ndarray:
    """Recordings of each group without and with a leak, float64 [groups, 2]."""
    counts = np.zeros((groups, 2))
    np.add.at(counts, (number, is_leak.astype(int)), 1)
    return counts


def _carve(
    groups: np.ndarray, is_leak: np.ndarray, val_fraction: float, seed: int, name: str
) -> tuple[np.ndarray, np.ndarray, str]:
    """Rows that train, rows that validate, and what they have apart."""
    for keys, val_by in ((groups, "group"), (np.arange(len(groups)), "recording")):
        _, number = np.unique(keys, return_inverse=True)
        counts = _counts(number, is_leak, int(number.max()) + 1)
        dealt = balance(counts, np.array([1 - val_fraction, val_fraction]), seed)
        in_val = give_both_classes(dealt, counts, np.array([False, True]), [0, 1])[number] == 1
        share = in_val.mean()
        both = all(0 < is_leak[part].sum() < part.sum() for part in (in_val, ~in_val))
        if both and (val_by == "recording" or val_fraction / 2 <= share <= 1.5 * val_fraction):
            return np.flatnonzero(~in_val), np.flatnonzero(in_val), val_by
    raise InputError(
        f"Leaving out {name}, {int(is_leak.sum())} leaks and {int((~is_leak).sum())} others are left: too few to train and "
        f"to validate with both (crossval.val_fraction={val_fraction:g})."
    )
