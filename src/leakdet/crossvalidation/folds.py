"""Folds over all recordings of a store: whole groups are held out, a part of the rest validates.

Nothing of a held-out group reaches training, early stopping or the threshold. Validation and
training share a group only where there are too few groups to avoid it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from leakdet.building.splits import balance, give_both_classes
from leakdet.core.errors import InputError, first_few
from leakdet.storage.folder import unknown_column
from leakdet.storage.store import SOURCE_FILE

RECORDING = "recording"  # in place of a column: every recording is a group of its own
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
        existing = _column(columns, column, setting)
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


def group_keys(
    columns: dict[str, np.ndarray],
    group_by: Sequence[str],
    recording_ids: Shaped[np.ndarray, " R"],
    setting: str,
) -> Shaped[np.ndarray, " R"]:
    """The group of each recording as text; blank, for unknown, where one of its columns is.

    Channels of one file count as one recording.
    """
    if list(group_by) == [RECORDING]:
        return source_files(columns, recording_ids)
    if RECORDING in group_by or not group_by:
        raise InputError(f"{setting}={list(group_by)}: give `recording` alone, or group columns.")
    parts = [_column(columns, column, setting) for column in group_by]
    return np.array([" / ".join(key) if all(key) else "" for key in zip(*parts, strict=True)])


def source_files(
    columns: Mapping[str, np.ndarray], recording_ids: Shaped[np.ndarray, " R"]
) -> Shaped[np.ndarray, " R"]:
    """The file of each recording, whose channels were recorded together; mostly itself."""
    files = columns.get(SOURCE_FILE, recording_ids)
    return np.where(files == "", recording_ids, files)


def _column(columns: dict[str, np.ndarray], column: str, setting: str) -> np.ndarray:
    if column not in columns:
        raise unknown_column(column, list(columns), setting)
    return columns[column]


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


def hold_out_groups(
    groups: Shaped[np.ndarray, " R"],
    is_leak: Bool[np.ndarray, " R"],
    folds: int,
    seed: int,
    files: Shaped[np.ndarray, " R"] | None = None,
) -> Iterator[tuple[str, Int[np.ndarray, " A"], Int[np.ndarray, " C"]]]:
    """Name, remaining and held-out rows of each fold; none may be empty."""
    known = np.flatnonzero(groups != "")
    if files is not None:
        _refuse_torn_files(groups[known], files[known])
    names, group_of_row = np.unique(groups[known], return_inverse=True)
    if len(names) < max(2, folds):
        raise InputError(
            f"{len(names)} groups cannot make {max(2, folds)} folds: {first_few(names.tolist())}. "
            "Group by a finer column, by recording, or ask for fewer folds."
        )
    fold_of_group = np.arange(len(names))
    if folds:
        counts = _class_counts(group_of_row, is_leak[known], len(names))
        fold_of_group = balance(counts, np.full(folds, 1 / folds), seed)
        filled = len(np.unique(fold_of_group))
        if filled < folds:
            raise InputError(
                f"{len(names)} groups of such sizes and labels fill only {filled} of {folds} "
                "folds. Ask for fewer folds, or group by a finer column."
            )
    for fold in np.unique(fold_of_group):
        held_out = fold_of_group[group_of_row] == fold
        yield f"fold {fold + 1}" if folds else str(names[fold]), known[~held_out], known[held_out]


def _refuse_torn_files(groups: Shaped[np.ndarray, " R"], files: Shaped[np.ndarray, " R"]) -> None:
    groups_of: dict[str, set[str]] = {}
    for file, group in zip(files.tolist(), groups.tolist(), strict=True):
        groups_of.setdefault(str(file), set()).add(str(group))
    torn = [file for file, found in groups_of.items() if len(found) > 1]
    if torn:
        raise InputError(
            f"{len(torn)} of {len(groups_of)} files have channels in more than one group: "
            f"{first_few(torn)}. They were recorded together, so one of them in training would "
            "give away the other. Group by a column that is the same for all channels of a file, "
            "or choose one channel of each with crossval.where."
        )


def _class_counts(
    group_of_row: Int[np.ndarray, " R"], is_leak: Bool[np.ndarray, " R"], groups: int
) -> Float[np.ndarray, "groups 2"]:
    """Recordings of each group without and with a leak."""
    counts = np.zeros((groups, 2))
    np.add.at(counts, (group_of_row, is_leak.astype(int)), 1)
    return counts


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
        counts = _class_counts(key_of_row, is_leak, int(key_of_row.max()) + 1)
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
