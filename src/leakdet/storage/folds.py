"""Divides recordings into folds or splits: whole groups, both classes, the same for a seed."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from leakdet.core.errors import InputError, first_few
from leakdet.core.locations import SOURCE_FILE
from leakdet.storage.folder import unknown_column

RECORDING = "recording"  # in place of a column: every recording is a group of its own


def group_keys(
    columns: dict[str, np.ndarray],
    group_by: Sequence[str],
    recording_ids: Shaped[np.ndarray, " R"],
    setting: str,
) -> Shaped[np.ndarray, " R"]:
    """The group of each recording as text; blank, for unknown, where one of its columns is.

    Channels or spans of one file count as one recording.
    """
    if list(group_by) == [RECORDING]:
        return source_files(columns, recording_ids)
    if RECORDING in group_by or not group_by:
        raise InputError(f"{setting}={list(group_by)}: give `recording` alone, or group columns.")
    parts = [column_of(columns, column, setting) for column in group_by]
    return np.array([" / ".join(key) if all(key) else "" for key in zip(*parts, strict=True)])


def source_files(
    columns: Mapping[str, np.ndarray], recording_ids: Shaped[np.ndarray, " R"]
) -> Shaped[np.ndarray, " R"]:
    """The file of each recording, whose channels or spans belong together; mostly itself."""
    files = columns.get(SOURCE_FILE, recording_ids)
    return np.where(files == "", recording_ids, files)


def column_of(columns: dict[str, np.ndarray], column: str, setting: str) -> np.ndarray:
    if column not in columns:
        raise unknown_column(column, list(columns), setting)
    return columns[column]


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
        counts = class_counts(group_of_row, is_leak[known], len(names))
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
            f"{len(torn)} of {len(groups_of)} files have channels or spans in more than one group: "
            f"{first_few(torn)}. They were recorded together, so one of them in training would "
            "give away the other. Group by a column that is the same for all recordings of a file, "
            "or choose one of each with crossval.where."
        )


def class_counts(
    group_of_row: Int[np.ndarray, " R"], is_leak: Bool[np.ndarray, " R"], groups: int
) -> Float[np.ndarray, "groups 2"]:
    """Recordings of each group without and with a leak."""
    counts = np.zeros((groups, 2))
    np.add.at(counts, (group_of_row, is_leak.astype(int)), 1)
    return counts


def stratified_folds(
    is_leak: Bool[np.ndarray, " R"], folds: int, seed: int
) -> list[tuple[Int[np.ndarray, " A"], Int[np.ndarray, " B"]]]:
    """Rows to fit on and rows to score of each fold over single recordings, classes even."""
    rows = np.arange(len(is_leak))
    in_order = np.lexsort((np.random.default_rng(seed).permutation(len(is_leak)), is_leak))
    fold = np.empty(len(is_leak), np.int64)
    fold[in_order] = rows % folds
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in np.unique(fold)]


def balance(
    counts: Float[np.ndarray, "G L"], ratios: Float[np.ndarray, " S"], seed: int
) -> Int[np.ndarray, " G"]:
    """Assign groups to splits greedily, so that each split gets its share of every label.

    `counts` are recordings by group and label. Large groups come first, equal ones in seeded order,
    each to the split that gains most by it.
    """
    order = np.random.default_rng(seed).permutation(len(counts))
    order = order[np.argsort(-counts[order].sum(1), kind="stable")]
    totals = np.maximum(counts.sum(0), 1)
    target = ratios[:, None] * counts.sum(0)
    filled = np.zeros_like(target)
    chosen = np.zeros(len(counts), np.int64)
    for group in order:
        before = ((filled - target) / totals) ** 2
        after = ((filled + counts[group] - target) / totals) ** 2
        cost = (after - before).sum(1)
        cost[ratios == 0] = np.inf
        chosen[group] = int(np.argmin(cost))
        filled[chosen[group]] += counts[group]
    return chosen


def give_both_classes(
    chosen: Int[np.ndarray, " G"],
    counts: Float[np.ndarray, "G L"],
    leak: Bool[np.ndarray, " L"],
    wanted: list[int],
) -> Int[np.ndarray, " G"]:
    """Move the smallest possible groups so that every wanted split has leaks and others.

    `chosen` are the split numbers of the groups, `leak` tells which labels are leaks.
    """
    has = np.stack([counts[:, leak].sum(1), counts[:, ~leak].sum(1)], axis=1) > 0  # [G, 2]
    chosen = chosen.copy()
    for split in wanted:
        for kind in (0, 1):
            if has[chosen == split, kind].any():
                continue
            donors = [
                g for g in np.flatnonzero(has[:, kind]).tolist() if _can_spare(g, chosen, has)
            ]
            if donors:
                chosen[min(donors, key=lambda g: (counts[g].sum(), g))] = split
    return chosen


def _can_spare(group: int, chosen: Int[np.ndarray, " G"], has: Bool[np.ndarray, "G 2"]) -> bool:
    """True if the split of this group would keep both of its classes without it."""
    others = (chosen == chosen[group]) & (np.arange(len(chosen)) != group)
    return bool((has[others].any(0) | ~has[group]).all())
