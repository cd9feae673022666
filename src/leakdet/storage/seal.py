"""Seals: a hash over the bytes of a file, compared before anything in them is believed.

The seal of a store's HDF5 file is in the user block in front of it, which HDF5 skips; that of a
model file is in its metadata. It covers every byte but its own and, so that a store opens without
being read, the mel and sound of a store. Mel has a checksum for each recording.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from pathlib import Path

from leakdet.errors import InputError

KEY = "leakdet_blake2b"
UNSEALED = "0" * 32  # the digits before they are known
USER_BLOCK_BYTES = 4096  # a page, so that data sets still begin at one
READ_BYTES = 1 << 20
_SEAL = re.compile(rb'"%b": ?"([0-9a-f]{32})"' % KEY.encode())


def sealed(content: bytes) -> bytes:
    """The content of a file in which `"leakdet_blake2b":"00…"` stands, with its hash there."""
    found = _SEAL.search(content)
    if found is None:
        raise ValueError(f"the content has no {KEY}")
    start, stop = found.span(1)
    return content[:start] + _hash([_without_seal(content)]) + content[stop:]


def is_sealed(path: Path, content: bytes, remedy: str) -> bool:
    """True if the content of a file has a seal; False if it has none, as of older versions.

    Raises:
        InputError: the seal is broken: these are not the bytes that were written.
    """
    found = _SEAL.search(content)
    if found is None:
        return False
    _compare(path, found[1], [_without_seal(content)], remedy)
    return True


def seal_store(path: Path, left_out: Sequence[tuple[int, int]]) -> None:
    """Seal an HDF5 file that has a user block, but for the bytes [start, stop) of `left_out`."""
    size, ranges = path.stat().st_size, sorted(left_out)
    block = json.dumps({KEY: UNSEALED, "bytes": size, "left_out": ranges}).encode()
    block = block.ljust(USER_BLOCK_BYTES, b"\0")
    digits = _hash(chain([_without_seal(block)], _pieces(path, _kept(ranges, size))))
    with path.open("r+b") as file:
        file.write(block.replace(UNSEALED.encode(), digits, 1))


def store_is_sealed(path: Path, remedy: str) -> bool:
    """As `is_sealed`, of an HDF5 file. Its bytes are read once, and again after a change."""
    status = path.stat()
    state = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    return _store_is_sealed(path, remedy, state)


@lru_cache(maxsize=4096)
def _store_is_sealed(path: Path, remedy: str, state: tuple[int, int, int, int]) -> bool:
    size = state[2]
    with path.open("rb") as file:
        block = file.read(USER_BLOCK_BYTES)
    found = _SEAL.search(block)
    if found is None:
        return False
    try:
        facts = json.loads(block.rstrip(b"\0"))
        written = int(facts["bytes"])
        kept = _kept([(int(start), int(stop)) for start, stop in facts["left_out"]], written)
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path}: damaged in its first bytes ({error}). {remedy}") from error
    if size < written:
        raise InputError(f"{path}: it is cut off ({size} of {written} bytes). {remedy}")
    if size > written:
        raise InputError(f"{path}: damaged: it has {size} bytes, not {written}. {remedy}")
    _compare(path, found[1], chain([_without_seal(block)], _pieces(path, kept)), remedy)
    return True


def _kept(left_out: Sequence[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """The bytes [start, stop) behind the user block of which none are left out."""
    bounds = [USER_BLOCK_BYTES, *(bound for pair in left_out for bound in pair), size]
    if bounds != sorted(bounds):
        raise ValueError(f"its parts {bounds} are not in order")
    return list(zip(bounds[::2], bounds[1::2], strict=True))


def _pieces(path: Path, ranges: Sequence[tuple[int, int]]) -> Iterator[bytes]:
    with path.open("rb") as file:
        for start, stop in ranges:
            file.seek(start)
            while piece := file.read(min(READ_BYTES, stop - file.tell())):
                yield piece


def _without_seal(content: bytes) -> bytes:
    return _SEAL.sub(b"", content, count=1)


def _compare(path: Path, stored: bytes, pieces: Iterable[bytes], remedy: str) -> None:
    if stored != _hash(pieces):
        raise InputError(
            f"{path}: damaged: its bytes are not those that were written (checksum). {remedy}"
        )


def _hash(pieces: Iterable[bytes]) -> bytes:
    digest = blake2b(digest_size=16)
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest().encode()
