"""Divides recordings into train, val and test: whole groups, stratified by label, seeded."""

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from leakdet.building.sources import SourceRecording
from leakdet.config import SplitConfig
from leakdet.core.errors import InputError, first_few
from leakdet.core.locations import SOURCE_FILE
from leakdet.storage.folder import BY_BUILD
from leakdet.storage.folds import balance, give_both_classes
from leakdet.storage.store import SPLITS


def assign_splits(
    recordings: Sequence[SourceRecording], settings: SplitConfig, leaks: Sequence[str]
) -> list[str]:
    """The split of each recording: that given by the source, or else whole groups are assigned."""
    given = [recording.split for recording in recordings]
    if any(given):
        lacking = [r.recording_id for r in recordings if r.split is None]
        if lacking:
            raise InputError(
                f"{len(lacking)} of {len(recordings)} recordings have no split: "
                f"{first_few(lacking)}. Give all or none."
            )
        splits = [str(split) for split in given]
    else:
        splits = _assign_groups(recordings, settings, leaks)
    _check_groups(recordings, splits, settings)
    return splits


def split_origin(recordings: Sequence[SourceRecording], settings: SplitConfig) -> str:
    """`source` where the recordings name their splits, `settings` where shares or seed are given.

    Else `build`, which divided them by its defaults: nobody has chosen what is in test.
    """
    if any(recording.split for recording in recordings):
        return "source"
    plain = SplitConfig()
    chosen = (settings.ratios, settings.seed) != (plain.ratios, plain.seed)
    return "settings" if chosen else BY_BUILD


def recording_groups(
    recordings: Sequence[SourceRecording], group_by: Sequence[str]
) -> list[tuple[str, ...]]:
    """The group of each recording; if all its columns are blank, its file is a group of its own."""
    known = sorted({column for recording in recordings for column in recording.groups})
    unknown = [column for column in group_by if column not in known]
    if unknown:
        raise InputError(
            f"split.group_by={list(group_by)}: {unknown} are no group columns of the source; "
            f"it has {known}."
        )
    keys = []
    for recording in recordings:
        key = tuple(recording.groups.get(column, "") for column in group_by)
        keys.append(key if any(key) else (_file_of(recording),))
    return keys


def _file_of(recording: SourceRecording) -> str:
    return recording.groups.get(SOURCE_FILE) or recording.recording_id


def _assign_groups(
    recordings: Sequence[SourceRecording], settings: SplitConfig, leaks: Sequence[str]
) -> list[str]:
    keys = recording_groups(recordings, settings.group_by)
    number_of = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    group = np.array([number_of[key] for key in keys])
    names, label = np.unique([recording.label for recording in recordings], return_inverse=True)
    counts = np.zeros((len(number_of), len(names)))
    np.add.at(counts, (group, label), 1)
    wanted = [number for number, ratio in enumerate(settings.ratios) if ratio > 0]
    chosen = balance(counts, np.array(settings.ratios), settings.seed)
    chosen = give_both_classes(chosen, counts, np.isin(names, leaks), wanted)
    return [SPLITS[number] for number in chosen[group]]


def _check_groups(
    recordings: Sequence[SourceRecording], splits: Sequence[str], settings: SplitConfig
) -> None:
    """Refuse groups in two splits, which given splits can cause, and files in two splits."""
    splits_of_file: dict[str, set[str]] = defaultdict(set)
    for recording, split in zip(recordings, splits, strict=True):
        if SOURCE_FILE in recording.groups:
            splits_of_file[recording.groups[SOURCE_FILE]].add(split)
    apart = [file for file, names in splits_of_file.items() if len(names) > 1]
    if apart:
        raise InputError(
            f"{len(apart)} of {len(splits_of_file)} files have channels or spans in more than one "
            f"split: {first_few(apart)}. They were recorded together: give the recordings of a "
            "file the same split, and the same values in the columns of split.group_by."
        )
    splits_of: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for key, split in zip(recording_groups(recordings, settings.group_by), splits, strict=True):
        splits_of[key].add(split)
    torn = [
        f"{'/'.join(key)} in {' and '.join(sorted(names))}"
        for key, names in splits_of.items()
        if len(names) > 1
    ]
    if torn:
        raise InputError(
            f"{len(torn)} of {len(splits_of)} groups (split.group_by={settings.group_by}) lie in "
            f"more than one split: {first_few(torn)}. Change the splits in the source, or remove "
            "them, so that build divides the groups."
        )


def check_division(
    assigned: Sequence[tuple[SourceRecording, str]], settings: SplitConfig, leaks: Sequence[str]
) -> None:
    """Check that every split has leaks and others, as `check_both_classes` does."""
    recordings = [recording for recording, _ in assigned]
    given = any(recording.split for recording in recordings)
    rows = [(split, recording.label) for recording, split in assigned]
    groups = (
        [] if given else [" / ".join(k) for k in recording_groups(recordings, settings.group_by)]
    )
    check_both_classes(rows, settings, leaks, given, groups)


def check_both_classes(
    rows: Sequence[tuple[str, str]],
    settings: SplitConfig,
    leaks: Sequence[str],
    given: bool,
    groups: Sequence[str] = (),
) -> None:
    """Check that every split has leaks and others; `rows` are (split, label) of each recording.

    `given` splits are the source's own; else `groups` are the groups that were divided, by row.
    """
    counts = Counter(rows)
    labels = sorted({label for _, label in rows})
    if given:
        wanted = sorted({split for split, _ in rows})
    else:
        wanted = [s for s, ratio in zip(SPLITS, settings.ratios, strict=True) if ratio > 0]
    faulty = []
    for split in wanted:
        leak = sum(counts[(split, label)] for label in leaks)
        rest = sum(counts[(split, label)] for label in labels if label not in leaks)
        if not leak or not rest:
            faulty.append(f"{split} has {leak} leak and {rest} other")
    if not faulty:
        return
    table = "; ".join(
        f"{s}: " + ", ".join(f"{counts[(s, label)]} {label}" for label in labels) for s in SPLITS
    )
    if groups:
        of_kind: dict[bool, set[str]] = {True: set(), False: set()}
        for (_, label), group in zip(rows, groups, strict=True):
            of_kind[label in leaks].add(group)
        remedy = _way_out(sorted(of_kind[True]), sorted(of_kind[False]), settings, len(wanted))
    else:
        remedy = "Add recordings, or change the splits in the source."
    raise InputError(
        f"Every split needs leak and other recordings, but {' and '.join(faulty)}. "
        f"Counts: {table}. {remedy}"
    )


def _way_out(
    leaks: Sequence[str], others: Sequence[str], settings: SplitConfig, splits: int
) -> str:
    """A sentence on which groups lack leaks or others, and what to do."""
    by = settings.group_by
    for kind, groups in (("leaks", leaks), ("others", others)):
        if not groups:
            return f"There are no {kind} at all. Add some."
        if len(groups) == 1 and not by:
            return f"The {kind} are one recording, {groups[0]}. Add more."
        if len(groups) == 1:
            return (
                f"All {kind} are in one group of split.group_by={by}: {groups[0]}. Add recordings "
                "of other groups, or leave out split.group_by: the score then says nothing about "
                f"a new {' or '.join(by)}."
            )
    unit = f"groups (split.group_by={by})" if by else "recordings"
    finer = " Add recordings, or choose a finer split.group_by." if by else " Add recordings."
    fewer = "split.ratios=[0.8,0.2,0] makes no test split, and " if splits > 2 else ""
    return (
        f"There are {splits} splits; leaks are in {len(leaks)} of {len({*leaks, *others})} {unit}, "
        f"others in {len(others)}.{finer} Or test on each in turn: {fewer}leakdet crossval "
        f"crossval.group_by=[{','.join(by) or 'recording'}] holds out one after the other."
    )
