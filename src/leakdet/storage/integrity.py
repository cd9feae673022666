"""Is what the store holds what was written, and do its splits keep apart what belongs together? Asked before epoch 0."""

import json
import zlib
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np

from leakdet._parallel import in_order
from leakdet.errors import InputError, first_few
from leakdet.storage.ailh_store import is_legacy
from leakdet.storage.hdf5 import open_h5
from leakdet.storage.layout import AGAIN
from leakdet.storage.store import GROUP, StoreSplit, lacks_group
from leakdet.storage.views import places_of

BLOCK_BYTES = 16 << 20
NOT_FINITE = 0x7C00  # float16: bits of infinity; NaN lies above
BLANK = 0  # digest of a recording whose texts are all empty: it belongs to no group


def check_contents(split: StoreSplit) -> np.ndarray:
    """Read every recording and compare it with its checksum, in blocks over all cores. Returns the checksums found, [R].

    Raises:
        InputError: the mel of a recording is not what was written, holds NaN or infinite values, or was never computed.
    """
    sums = np.zeros(split.recordings, np.uint32)
    unheard: list[int] = []

    def check(bounds: tuple[int, int]) -> list[int]:
        first, last = bounds
        offsets = split.recording_offsets
        rows = split.read(int(offsets[first]), int(offsets[last]))
        _require_finite(split, first, rows)
        sums[first:last] = _compared(split, first, last, rows)
        return _unheard(split, first, last, rows)

    _ = split.checksums, split.recording_ids  # read here, once, not by each thread
    for _, found in in_order(check, _blocks(split)):
        unheard += found
    _refuse_unheard(split, unheard)
    return sums


def _blocks(split: StoreSplit) -> Iterator[tuple[int, int]]:
    """Recordings [first, last) of about `BLOCK_BYTES` each."""
    ends = np.cumsum(split.windows_per_recording * split.mel.window_bytes)
    first = 0
    while first < split.recordings:
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + BLOCK_BYTES, side="right")))
        yield first, last
        first = last


def check_recordings(split: StoreSplit, first: int, last: int, rows: np.ndarray) -> None:
    """`rows` are the windows of recordings [first, last) as they were read. Raises as `check_contents` does."""
    _require_finite(split, first, rows)
    if split.checksums is not None:
        _compared(split, first, last, rows)
    _refuse_unheard(split, _unheard(split, first, last, rows))


def _require_finite(split: StoreSplit, first: int, rows: np.ndarray) -> None:
    bits = rows.reshape(len(rows), -1).view(np.uint16)
    if rows.size and int((bits & 0x7FFF).max()) >= NOT_FINITE:
        bad = int(np.flatnonzero(((bits & 0x7FFF) >= NOT_FINITE).any(axis=1))[0])
        window = bad + int(split.recording_offsets[first])
        row = int(np.searchsorted(split.recording_offsets, window, side="right")) - 1
        raise InputError(f"{_named(split, row)} holds NaN or infinite values. {AGAIN}")


def _compared(split: StoreSplit, first: int, last: int, rows: np.ndarray) -> list[int]:
    """The checksums of recordings [first, last), compared with those that the store keeps."""
    offsets = split.recording_offsets[first : last + 1] - split.recording_offsets[first]
    bits = rows.reshape(len(rows), -1).view(np.uint16)
    sums = [zlib.crc32(bits[low:high].data) for low, high in pairwise(offsets.tolist())]
    if split.checksums is not None:
        wrong = np.flatnonzero(sums != split.checksums[first:last])
        if wrong.size:
            raise InputError(
                f"{_named(split, first + int(wrong[0]))} is damaged: its mel is not what was written (checksum). {AGAIN}"
            )
    return sums


def _unheard(split: StoreSplit, first: int, last: int, rows: np.ndarray) -> list[int]:
    """Recordings whose mel is one number throughout: the predecessor left them so where it could not read the audio.

    A store of our own never has them, and one that is silent in it was heard.
    """
    if not is_legacy(split.files[0].parent):
        return []
    offsets = split.recording_offsets[first : last + 1] - split.recording_offsets[first]
    return [
        row
        for row, (low, high) in enumerate(pairwise(offsets.tolist()), first)
        if rows[low].min() == rows[low].max() and rows[low:high].min() == rows[low:high].max()
    ]


def _refuse_unheard(split: StoreSplit, rows: Sequence[int]) -> None:
    if rows:
        raise InputError(
            f"{split.files[0].parent}: the mel of {len(rows)} of {split.recordings} recordings of {split.name} is one number "
            f"throughout, as the predecessor left it where it could not read the audio: {_ids(split, rows)}. Trained on them, "
            f"the network would learn their labels from nothing. {_converting(split)} leaves them out."
        )


def _converting(split: StoreSplit) -> str:
    return f"python -m leakdet.build source={split.files[0].parent} out=NEW_FOLDER converts the store and"


def _ids(split: StoreSplit, rows: Sequence[int]) -> str:
    return first_few([str(split.recording_ids[row]) for row in rows])


def _named(split: StoreSplit, row: int) -> str:
    path, _ = places_of(split)[row]  # a view's recordings lie in the files of several splits
    return f"{path}: recording {split.recording_ids[row]}"


# ---------------------------------------------------------------------------------------------------- between splits


def check_apart(splits: Sequence[StoreSplit]) -> None:
    """No recording, no group that the build kept together, and no sound lies in two splits; no recording lies twice in one.

    A predecessor's store names nothing and passes; `check_no_copies` compares its mel.

    Raises:
        InputError: with the names of some that do.
    """
    if not all(split.has("recording_id") for split in splits):
        return
    group_by = list(dict.fromkeys(column for split in splits for column in grouped_by(split)))
    for what, columns in (
        ("the recording", ["recording_id"]),
        ("the sound of", ["content_sha256"] if sounds_are_hashed(splits) else []),
        (f"the group ({'/'.join(group_by)})", [f"{GROUP}{column}" for column in group_by]),
    ):
        held: list[tuple[StoreSplit, np.ndarray]] = []
        for split in splits if columns else []:
            keys = _keys(split, columns)
            for other, theirs in held:
                both = np.intersect1d(keys, theirs)
                if both[both != BLANK].size:
                    raise InputError(_overlap(split, other, what, columns, both[both != BLANK]))
            held.append((split, keys))
    for split in splits:
        _check_unique(split)


def sounds_are_hashed(splits: Sequence[StoreSplit]) -> bool:
    """Whether `check_apart` finds a sound that lies in two of them; otherwise `check_no_copies` has to."""
    return all(split.has("content_sha256") for split in splits)


def grouped_by(split: StoreSplit) -> list[str]:
    """The group columns that the build kept within one split."""
    with open_h5(split.files[0]) as file:
        return [str(column) for column in json.loads(file.attrs.get("group_by", "[]"))]


def _keys(split: StoreSplit, columns: Sequence[str]) -> np.ndarray:
    """A 64-bit digest of each recording's texts, int64 [R]: eight bytes where a million texts would be 250 MB."""
    return np.concatenate(
        [np.empty(0, np.int64), *(_digests(path, columns) for path in split.files)]
    )


def _digests(path: Path, columns: Sequence[str], block: int = 65536) -> np.ndarray:
    with open_h5(path) as file:
        lacking = [
            column for column in columns if column not in file and not lacks_group(file, column)
        ]
        if lacking:
            raise InputError(
                f"{path}: lacks {first_few(lacking)}, which its splits were kept apart by. {AGAIN}"
            )
        blank = np.full(len(file["label_id"]), b"", object)
        found = [blank if lacks_group(file, column) else file[column] for column in columns]
        digests = np.full(len(blank), BLANK, np.int64)
        for start in range(0, len(digests), block):
            texts = zip(*(column[start : start + block] for column in found), strict=True)
            for row, parts in enumerate(texts, start):
                if any(parts):
                    digest = blake2b(b"\0".join(parts), digest_size=8).digest()
                    digests[row] = int.from_bytes(digest, "little", signed=True)
    return digests


def _overlap(
    split: StoreSplit, other: StoreSplit, what: str, columns: Sequence[str], both: np.ndarray
) -> str:
    rows = np.flatnonzero(np.isin(_keys(split, columns), both))
    called = ["recording_id"] if columns == ["content_sha256"] else columns
    texts = [split.texts(column)[rows] for column in called]
    names = list(dict.fromkeys("/".join(parts) for parts in zip(*texts, strict=True)))
    return (
        f"{split.files[0].parent}: {what} {first_few(names)} lies in {other.files[0].name} "
        f"and in {split.files[0].name}: the {split.name} score would measure memorised recordings "
        "(data leakage). Build the store again, with a split.group_by= or a split column that "
        "keeps them together."
    )


def _check_unique(split: StoreSplit) -> None:
    if len(np.unique(_keys(split, ["recording_id"]))) < split.recordings:
        names, counts = np.unique(split.recording_ids, return_counts=True)
        raise InputError(
            f"{split.files[0].parent}: {split.name} has {first_few(names[counts > 1].tolist())} more than once. "
            "Build the store again; were its shards built from different sources?"
        )


def check_no_copies(read: Sequence[tuple[StoreSplit, np.ndarray]]) -> None:
    """No mel lies in two of these splits, each with the checksums [R] that `check_contents` found.

    Raises:
        InputError: with the names of some that do.
    """
    for (other, other_sums), (split, sums) in combinations(read, 2):
        _, mine, theirs = np.intersect1d(sums, other_sums, return_indices=True)
        # Among millions of pairs, 32 bits agree by chance.
        same = [
            (a, b)
            for a, b in zip(mine.tolist(), theirs.tolist(), strict=True)
            if _equal(split, a, other, b)
        ]
        if same:
            raise InputError(_copied(split, other, same))


def _copied(split: StoreSplit, other: StoreSplit, same: Sequence[tuple[int, int]]) -> str:
    way_out = "Build the store again"
    if is_legacy(split.files[0].parent):
        way_out = f"{_converting(split)} keeps one of each"
    return (
        f"{split.files[0].parent}: the same mel lies in {other.files[0].name} and in {split.files[0].name}, "
        f"{len(same)} times ({_ids(other, [b for _, b in same])} and {_ids(split, [a for a, _ in same])}): a score on "
        f"{split.name} would be of what the network knows by heart. {way_out}."
    )


def _equal(split: StoreSplit, row: int, other: StoreSplit, its_row: int) -> bool:
    low, high = split.recording_offsets[row : row + 2].tolist()
    start, stop = other.recording_offsets[its_row : its_row + 2].tolist()
    return np.array_equal(split.read(low, high), other.read(start, stop))
