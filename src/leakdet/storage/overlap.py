"""Checks against data leakage: no recording, sound or group lies in two splits."""

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import combinations
from pathlib import Path

import numpy as np
from jaxtyping import Int64, UInt32

from leakdet.core.errors import InputError, first_few
from leakdet.core.locations import SOURCE_FILE
from leakdet.storage.ailh import is_ailh
from leakdet.storage.hdf5 import REBUILD, open_h5
from leakdet.storage.integrity import convert_command, listed
from leakdet.storage.store import GROUP, SPLITS, StoreSplit, lacks_group


def values_sentence(column: str, values: Mapping[str, set[str]], advise: bool = True) -> str:
    """A sentence on the `values` of a column in each split, blank ones left out.

    Where train shares some, it says what that does to the scores and, to `advise`, what to do.
    """
    held_out = shared_with(values)
    if not held_out:
        counts = ", ".join(f"{len(found)} in {split}" for split, found in values.items() if found)
        return f"{column}: {counts or 'blank everywhere'}; none in train and in another split"
    shared = values["train"] & {value for split in held_out for value in values[split]}
    total = len(set.union(*values.values()))
    where = ", ".join(["train", *held_out[:-1]]) + f" and {held_out[-1]}"
    if len(shared) == total:
        known = {1: "its one value is", 2: "both values are"}.get(total, f"all {total} values are")
        text = f"{column}: {known} in {where}; scores say nothing about a new {column}."
    else:
        verb = "is" if len(shared) == 1 else "are"
        text = (
            f"{column}: {len(shared)} of {total} values {verb} in {where}; "
            f"scores are partly of a {column} known from training."
        )
    if not advise:
        return text
    if total >= sum(bool(found) for found in values.values()):
        return f"{text} Keep them apart: build with split.group_by=[{column}]"
    if total == 1:
        return text
    return f"{text} Too few for a split each; crossval.group_by={column} holds out each in turn"


def shared_with(values: Mapping[str, set[str]]) -> list[str]:
    """The splits besides train that have some of its values."""
    return [
        split for split, found in values.items() if split != "train" and found & values["train"]
    ]


def group_values(splits: Sequence[StoreSplit]) -> dict[str, dict[str, set[str]]]:
    """Values of each group column in each split of a store, blank ones left out."""
    held = {split.name: split.groups for split in splits}
    columns = dict.fromkeys(column for groups in held.values() for column in groups)
    return {
        column: {name: set(held.get(name, {}).get(column, ())) - {""} for name in SPLITS}
        for column in columns
    }


def shared_sentences(splits: Sequence[StoreSplit]) -> list[str]:
    """A sentence for each group column of which train shares values with another of `splits`."""
    values = group_values(splits)
    return values_sentences({column: of for column, of in values.items() if shared_with(of)})


def values_sentences(values: Mapping[str, Mapping[str, set[str]]]) -> list[str]:
    """A sentence on the values of each group column, which advises on one column alone."""
    best = column_to_keep_apart(values)
    return [values_sentence(column, of, column == best) for column, of in values.items()]


def column_to_keep_apart(values: Mapping[str, Mapping[str, set[str]]]) -> str:
    """Of the columns of which train shares values the one with most, which is easiest to divide.

    Splits by several columns contradict each other. "": train shares none.
    """
    shared = {column: of for column, of in values.items() if shared_with(of)}
    return max(shared, key=lambda column: len(set.union(*shared[column].values())), default="")


BLANK = 0  # digest of a recording without a value: it belongs to no group
BLOCK_ROWS = 65536


def check_no_overlap(splits: Sequence[StoreSplit]) -> None:
    """Check recordings, sounds, and groups that the build kept together; also within each split.

    An AILH store names none of them and passes; `check_no_copies` compares its mel.
    """
    if not all(split.has("recording_id") for split in splits):
        return
    group_by = split_columns(splits)
    cut = any(any(split.spans()) for split in splits)
    for what, columns in (
        ("the recording", ["recording_id"]),
        ("the sound of", ["content_sha256"] if sounds_are_hashed(splits) else []),
        (f"the group ({'/'.join(group_by)})", [f"{GROUP}{column}" for column in group_by]),
        ("the file", [f"{GROUP}{SOURCE_FILE}"] if cut else []),
    ):
        if columns:
            _check_columns(splits, what, columns)
    for split in splits:
        _check_unique(split)


def sounds_are_hashed(splits: Sequence[StoreSplit]) -> bool:
    """True if `check_no_overlap` finds shared sounds; otherwise `check_no_copies` has to."""
    return all(split.has("content_sha256") for split in splits)


def check_no_copies(read: Sequence[tuple[StoreSplit, UInt32[np.ndarray, " _"]]]) -> None:
    """Check that no mel lies in two splits, each given with the CRC-32 of its recordings."""
    for (other, other_sums), (split, sums) in combinations(read, 2):
        _, mine, theirs = np.intersect1d(sums, other_sums, return_indices=True)
        copies = [
            (row, other_row)
            for row, other_row in zip(mine.tolist(), theirs.tolist(), strict=True)
            if _equal_mel(split, row, other, other_row)  # 32 bits collide among millions of pairs
        ]
        if copies:
            raise InputError(_copies_message(split, other, copies))


def split_columns(splits: Sequence[StoreSplit]) -> list[str]:
    """Group columns that the build kept within one split each."""
    return list(dict.fromkeys(column for split in splits for column in _group_by(split)))


def _group_by(split: StoreSplit) -> list[str]:
    """Group columns that the build kept within one split."""
    columns: list[str] = []
    for path in split.files:  # of several stores, each may have its own
        with open_h5(path) as file:
            columns += [str(column) for column in json.loads(file.attrs.get("group_by", "[]"))]
    return columns


def _check_columns(splits: Sequence[StoreSplit], what: str, columns: Sequence[str]) -> None:
    keys = [_keys(split, columns) for split in splits]
    for (other, other_keys), (split, its_keys) in combinations(zip(splits, keys, strict=True), 2):
        shared = np.setdiff1d(np.intersect1d(its_keys, other_keys), [BLANK])
        if shared.size:
            raise InputError(
                _overlap_message(split, other, what, columns, np.isin(its_keys, shared))
            )


def _check_unique(split: StoreSplit) -> None:
    if len(np.unique(_keys(split, ["recording_id"]))) < split.recordings:
        names, counts = np.unique(split.recording_ids, return_counts=True)
        raise InputError(
            f"{split.files[0].parent}: {split.name} has {first_few(names[counts > 1].tolist())} "
            "more than once. Build the store again; were its shards built from different sources?"
        )


def _keys(split: StoreSplit, columns: Sequence[str]) -> Int64[np.ndarray, " R"]:
    """Digest of each recording's values: 8 bytes, where a million texts would take 250 MB."""
    return np.concatenate(
        [np.empty(0, np.int64), *(_digests(path, columns) for path in split.files)]
    )


def _digests(path: Path, columns: Sequence[str]) -> Int64[np.ndarray, " R"]:
    with open_h5(path) as file:
        lacking = [
            column for column in columns if column not in file and not lacks_group(file, column)
        ]
        if lacking:
            raise InputError(
                f"{path}: lacks {first_few(lacking)}, by which its splits were kept apart. "
                f"{REBUILD}"
            )
        blank = np.full(len(file["label_id"]), b"", object)
        datasets = [blank if lacks_group(file, column) else file[column] for column in columns]
        digests = np.full(len(blank), BLANK, np.int64)
        for start in range(0, len(digests), BLOCK_ROWS):
            texts = zip(*(data[start : start + BLOCK_ROWS] for data in datasets), strict=True)
            for row, parts in enumerate(texts, start):
                if any(parts):
                    digest = blake2b(b"\0".join(parts), digest_size=8).digest()
                    digests[row] = int.from_bytes(digest, "little", signed=True)
    return digests


def _overlap_message(
    split: StoreSplit, other: StoreSplit, what: str, columns: Sequence[str], shared: np.ndarray
) -> str:
    shown = ["recording_id"] if columns == ["content_sha256"] else columns
    texts = [split.texts(column)[shared] for column in shown]
    names = list(dict.fromkeys("/".join(parts) for parts in zip(*texts, strict=True)))
    return (
        f"{split.files[0].parent}: {what} {first_few(names)} lies in {other.files[0].name} "
        f"and in {split.files[0].name}: the {split.name} score would measure memorised recordings "
        "(data leakage). Build the store again, with a split.group_by= or a split column that "
        "keeps them together."
    )


def _copies_message(split: StoreSplit, other: StoreSplit, copies: Sequence[tuple[int, int]]) -> str:
    remedy = "Build the store again"
    if is_ailh(split.files[0].parent):
        remedy = f"{convert_command(split)} keeps one of each"
    return (
        f"{split.files[0].parent}: the same mel lies in {other.files[0].name} and in "
        f"{split.files[0].name}, {len(copies)} times ({listed(other, [b for _, b in copies])} and "
        f"{listed(split, [a for a, _ in copies])}): the {split.name} score would measure memorised "
        f"recordings (data leakage). {remedy}."
    )


def _equal_mel(split: StoreSplit, row: int, other: StoreSplit, other_row: int) -> bool:
    low, high = split.recording_offsets[row : row + 2].tolist()
    start, stop = other.recording_offsets[other_row : other_row + 2].tolist()
    return np.array_equal(split.read(low, high), other.read(start, stop))
