"""Is what the store holds what was written, and do its splits keep apart what belongs together? Asked before epoch 0."""

import json
import zlib
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np

from leakdet._parallel import in_order
from leakdet.errors import InputError
from leakdet.storage.sources import shown
from leakdet.storage.store import GROUP, StoreSplit, lacks_group, open_h5

BLOCK_BYTES = 16 << 20
NOT_FINITE = 0x7C00  # float16: bits of infinity; NaN lies above
BLANK = 0  # digest of a recording whose texts are all empty: it belongs to no group
REMEDY = "Build the store again, or copy it again from where it is whole."


def check_contents(split: StoreSplit) -> None:
    """Read every recording and compare it with its checksum, in blocks over all cores.

    Raises:
        InputError: the mel of a recording is not what was written, or holds NaN or infinite values.
    """

    def check(bounds: tuple[int, int]) -> None:
        first, last = bounds
        offsets = split.recording_offsets
        check_recordings(split, first, last, split.read(int(offsets[first]), int(offsets[last])))

    _ = split.checksums, split.recording_ids  # read here, once, not by each thread
    for _ in in_order(check, _blocks(split)):
        pass


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
    """`rows` are the windows of recordings [first, last) as they were read."""
    offsets = split.recording_offsets[first : last + 1] - split.recording_offsets[first]
    bits = rows.reshape(len(rows), -1).view(np.uint16)
    if rows.size and int((bits & 0x7FFF).max()) >= NOT_FINITE:
        bad = int(np.flatnonzero(((bits & 0x7FFF) >= NOT_FINITE).any(axis=1))[0])
        row = first + int(np.searchsorted(offsets, bad, side="right")) - 1
        raise InputError(f"{_named(split, row)} holds NaN or infinite values. {REMEDY}")
    if split.checksums is None:
        return
    for row, (low, high) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True), first):
        if zlib.crc32(bits[low:high].data) != split.checksums[row]:
            raise InputError(
                f"{_named(split, row)} is damaged: its mel is not what was written (checksum). {REMEDY}"
            )


def _named(split: StoreSplit, row: int) -> str:
    counts = np.cumsum([part.shape[0] for part in split.mel.parts])
    number = int(np.searchsorted(counts, split.recording_offsets[row], side="right"))
    return f"{split.files[min(number, len(split.files) - 1)]}: recording {split.recording_ids[row]}"


# ---------------------------------------------------------------------------------------------------- between splits


def check_apart(splits: Sequence[StoreSplit]) -> None:
    """No recording, no group that the build kept together, and no sound lies in two splits; no recording lies twice in one.

    A predecessor's store names nothing and passes.

    Raises:
        InputError: with the names of some that do.
    """
    if not all(split.has("recording_id") for split in splits):
        return
    group_by = list(dict.fromkeys(column for split in splits for column in grouped_by(split)))
    for what, columns in (
        ("the recording", ["recording_id"]),
        ("the sound of", ["content_sha256"]),
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


def grouped_by(split: StoreSplit) -> list[str]:
    """The group columns that the build kept within one split."""
    with open_h5(split.files[0]) as file:
        return [str(column) for column in json.loads(file.attrs.get("group_by", "[]"))]


def _keys(split: StoreSplit, columns: Sequence[str]) -> np.ndarray:
    """A 64-bit digest of each recording's texts, int64 [R]: eight bytes where a million texts would be 250 MB."""
    return np.concatenate([np.empty(0, np.int64), *(_digests(path, columns) for path in split.files)])


def _digests(path: Path, columns: Sequence[str], block: int = 65536) -> np.ndarray:
    with open_h5(path) as file:
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
        f"{split.files[0].parent}: {what} {shown(names)} lies in {other.files[0].name} and in {split.files[0].name}: a score "
        f"on {split.name} would be of what the network knows by heart. Build the store again, with a split.group_by= or a "
        "split column that keeps them together."
    )


def _check_unique(split: StoreSplit) -> None:
    if len(np.unique(_keys(split, ["recording_id"]))) < split.recordings:
        names, counts = np.unique(split.recording_ids, return_counts=True)
        raise InputError(
            f"{split.files[0].parent}: {split.name} has {shown(names[counts > 1].tolist())} more than once. "
            "Build the store again; were its shards built from different sources?"
        )
