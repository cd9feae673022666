"""Dividing recordings into train, val and test: by whole groups, stratified by label, seeded, or refused with the numbers."""

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from leakdet.building.sources import SourceRecording
from leakdet.config import SplitConfig
from leakdet.errors import InputError, first_few
from leakdet.storage.store import SPLITS


def assign_splits(
    recordings: Sequence[SourceRecording], settings: SplitConfig, leak_label: str
) -> list[str]:
    """A split for each recording. Splits that the source gives are kept and checked; otherwise whole groups are dealt out.

    Raises:
        InputError: a group lies in two given splits, some recordings have a split and others none, an unknown group column,
            or no division gives every requested split both classes; the message carries the counts.
    """
    given = [recording.split for recording in recordings]
    if any(given):
        lacking = [r.recording_id for r in recordings if r.split is None]
        if lacking:
            raise InputError(
                f"{len(lacking)} of {len(recordings)} recordings have no split: {first_few(lacking)}. Give all or none."
            )
        splits = [str(split) for split in given]
    else:
        splits = _deal_out(recordings, settings, leak_label)
    _check_groups(recordings, splits, settings)
    return splits


def group_keys(
    recordings: Sequence[SourceRecording], group_by: Sequence[str]
) -> list[tuple[str, ...]]:
    """The group of each recording. Without columns, or where every column is blank, a recording is a group of its own."""
    known = sorted({column for recording in recordings for column in recording.groups})
    unknown = [column for column in group_by if column not in known]
    if unknown:
        raise InputError(
            f"split.group_by={list(group_by)}: {unknown} are no group columns of the source; it has {known}."
        )
    keys = []
    for recording in recordings:
        key = tuple(recording.groups.get(column, "") for column in group_by)
        keys.append(key if any(key) else (recording.recording_id,))
    return keys


def _deal_out(
    recordings: Sequence[SourceRecording], settings: SplitConfig, leak_label: str
) -> list[str]:
    members: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for index, key in enumerate(group_keys(recordings, settings.group_by)):
        members[key].append(index)
    names = sorted({recording.label for recording in recordings})
    position = {name: number for number, name in enumerate(names)}
    groups = list(members.values())
    counts = np.zeros((len(groups), len(names)))
    for number, group in enumerate(groups):
        for index in group:
            counts[number, position[recordings[index].label]] += 1
    wanted = [number for number, ratio in enumerate(settings.ratios) if ratio > 0]
    chosen = balance(counts, np.array(settings.ratios), settings.seed)
    leak = np.array([name == leak_label for name in names])
    chosen = give_both_classes(chosen, counts, leak, wanted)
    splits = [""] * len(recordings)
    for number, group in enumerate(groups):
        for index in group:
            splits[index] = SPLITS[chosen[number]]
    return splits


def balance(counts: np.ndarray, ratios: np.ndarray, seed: int) -> np.ndarray:
    """Greedy: big groups first, each to the split that it brings nearest to its share of every label. [G] of split numbers."""
    order = np.random.default_rng(seed).permutation(len(counts))
    order = order[np.argsort(-counts[order].sum(1), kind="stable")]
    totals = np.maximum(counts.sum(0), 1)
    target = ratios[:, None] * counts.sum(0)
    held = np.zeros_like(target)
    chosen = np.zeros(len(counts), np.int64)
    for group in order:
        before = ((held - target) / totals) ** 2
        after = ((held + counts[group] - target) / totals) ** 2
        cost = (after - before).sum(1)
        cost[ratios == 0] = np.inf
        chosen[group] = int(np.argmin(cost))
        held[chosen[group]] += counts[group]
    return chosen


def give_both_classes(
    chosen: np.ndarray, counts: np.ndarray, leak: np.ndarray, wanted: list[int]
) -> np.ndarray:
    """Move the smallest helpful group from the split that can best spare it, until every wanted split has both classes."""
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


def _can_spare(group: int, chosen: np.ndarray, has: np.ndarray) -> bool:
    """Would the split that holds this group still have every class that it has now?"""
    others = (chosen == chosen[group]) & (np.arange(len(chosen)) != group)
    return bool((has[others].any(0) | ~has[group]).all())


def _check_groups(
    recordings: Sequence[SourceRecording], splits: Sequence[str], settings: SplitConfig
) -> None:
    """No group in two splits; can fail only for splits that the source gave."""
    where: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for key, split in zip(group_keys(recordings, settings.group_by), splits, strict=True):
        where[key].add(split)
    torn = [
        f"{'/'.join(key)} in {' and '.join(sorted(found))}"
        for key, found in where.items()
        if len(found) > 1
    ]
    if torn:
        raise InputError(
            f"{len(torn)} of {len(where)} groups (split.group_by={settings.group_by}) lie in more than one split: "
            f"{first_few(torn)}."
        )


def check_both_classes(
    rows: Sequence[tuple[str, str]], settings: SplitConfig, leak_label: str, given: bool
) -> None:
    """`rows` are (split, label) of what is kept. Raises `InputError` with a count per split and label."""
    counts = Counter(rows)
    labels = sorted({label for _, label in rows})
    wanted = (
        sorted({split for split, _ in rows})
        if given
        else [s for s, r in zip(SPLITS, settings.ratios, strict=True) if r > 0]
    )
    faulty = []
    for split in wanted:
        leaks = counts[(split, leak_label)]
        rest = sum(counts[(split, label)] for label in labels if label != leak_label)
        if not leaks or not rest:
            faulty.append(f"{split} has {leaks} leak and {rest} other")
    if faulty:
        table = "; ".join(
            f"{s}: " + ", ".join(f"{counts[(s, label)]} {label}" for label in labels)
            for s in SPLITS
        )
        raise InputError(
            f"Every split needs leak and other recordings, but {' and '.join(faulty)}. Counts: {table}. "
            "Add recordings, choose other split.ratios (0 leaves a split out), or a finer split.group_by."
        )
