"""New recordings that judge: a group that neither model has met, or out-of-fold parts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int, Shaped

from leakdet.crossvalidation.folds import hold_out_groups, source_files
from leakdet.errors import SettingsError, first_few
from leakdet.learning.approach import PLACES, SENSORS
from leakdet.learning.recorded_times import recorded_times

FEWEST_TO_DECIDE = 8  # labels; fewer are wrong about which model is better too often


@dataclass(frozen=True)
class HeldOut:
    """A group of new recordings that does not train: its column, value and rows."""

    column: str
    value: str
    rows: Int[np.ndarray, " N"]


def held_out_group(
    wanted: str,
    groups: Mapping[str, Shaped[np.ndarray, " R"]],
    is_leak: Bool[np.ndarray, " R"],
    fewest: int,
    split_by: Sequence[str],
) -> HeldOut | None:
    """The group that is asked for, the newest one that may decide, or None.

    Raises:
        SettingsError: what is asked for is not there, or too little would be left to learn from.
    """
    if wanted == "none":
        return None
    if wanted != "auto":
        column, _, value = wanted.partition(":")
        return _asked_for(column, value, groups, is_leak, fewest)
    times = recorded_times(groups, len(is_leak))
    dated = np.flatnonzero(~np.isnat(times))
    if not len(dated):
        return None
    last = dated[np.argsort(times[dated], kind="stable")[-1]]
    for column in dict.fromkeys([*split_by, *PLACES, *SENSORS]):
        values = groups.get(column)
        if values is None:
            continue
        newest = str(values[last])
        mask = values == newest
        enough = mask.sum() >= FEWEST_TO_DECIDE and _both(is_leak[mask], 1)
        if newest and enough and _both(is_leak[~mask], fewest):
            return HeldOut(column, newest, np.flatnonzero(mask))
    return None


def _asked_for(
    column: str,
    value: str,
    groups: Mapping[str, Shaped[np.ndarray, " R"]],
    is_leak: Bool[np.ndarray, " R"],
    fewest: int,
) -> HeldOut:
    setting = f"learn.hold_out={column}:{value}"
    if column not in groups:
        there = first_few(sorted(groups)) if groups else "none"
        raise SettingsError(
            f"{setting}: the new recordings have no column {column}; they have {there}."
        )
    mask = groups[column] == value
    if not mask.any():
        there = first_few(sorted(set(groups[column].tolist()) - {""}))
        raise SettingsError(f"{setting}: no new recording has it; there are {there}.")
    if not _both(is_leak[mask], 1):
        raise SettingsError(f"{setting}: it has one class only, which cannot compare two models.")
    if not _both(is_leak[~mask], fewest):
        raise SettingsError(
            f"{setting}: fewer than {fewest} recordings of a class would be left to learn from "
            "(learn.min_per_class)."
        )
    return HeldOut(column, value, np.flatnonzero(mask))


def _both(is_leak: Bool[np.ndarray, " N"], fewest: int) -> bool:
    return min(int(is_leak.sum()), int((~is_leak).sum())) >= fewest


def fold_keys(
    groups: Mapping[str, Shaped[np.ndarray, " R"]],
    ids: Shaped[np.ndarray, " R"],
    is_leak: Bool[np.ndarray, " R"],
) -> tuple[Shaped[np.ndarray, " R"], str]:
    """What parts do not share: a place or sensor where several have each class, or a recording."""
    for column in (*PLACES, *SENSORS):
        values = groups.get(column)
        if values is None or (values == "").any():
            continue
        with_leak, without = set(values[is_leak].tolist()), set(values[~is_leak].tolist())
        if min(len(with_leak), len(without)) >= 2:
            return values, column
    return source_files(groups, ids), "recording"


def known_of_others(
    groups: Mapping[str, Shaped[np.ndarray, " R"]],
    ids: Shaped[np.ndarray, " R"],
    unit: str,
    judging: Shaped[np.ndarray, " C"],
) -> Int[np.ndarray, " N"]:
    """Rows that surely share no `unit` (of `fold_keys`) with the keys that judge.

    Rows whose site or sensor is not told may be of any, so they are none of these.
    """
    told = source_files(groups, ids) if unit == "recording" else groups.get(unit)
    keys = np.full(len(ids), "") if told is None else told
    return np.flatnonzero(~np.isin(keys, judging) & (keys != ""))


def parts(
    keys: Shaped[np.ndarray, " R"], is_leak: Bool[np.ndarray, " R"], folds: int, seed: int
) -> Iterator[tuple[Int[np.ndarray, " A"], Int[np.ndarray, " C"]]]:
    """Rows to train on and rows to score, so that every recording is scored once.

    Parts whose training rows lack a class are left out.
    """
    leaks, others = len(np.unique(keys[is_leak])), len(np.unique(keys[~is_leak]))
    count = max(2, min(folds, leaks, others))
    for _, rest, scored in hold_out_groups(keys, is_leak, count, seed):
        if _both(is_leak[rest], 1):
            yield rest, scored
