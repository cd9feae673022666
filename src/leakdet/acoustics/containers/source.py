"""The bytes of a recording: a file, a pipe or a URL, in part or spliced, and the layout in them."""

import os
import re
import shutil
import stat
import tempfile
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from leakdet.core.errors import InputError
from leakdet.core.locations import Location, RemoteFile

REMOTE_BLOCK_BYTES = 8 << 20  # a file that is shorter takes one request
ID3_BYTES = 1 << 16  # searched at the end of a file
KEPT_BLOCKS = 3  # the memory of a file of any length: where it is read, its start and its end


class RemoteBytes:
    """Reads any part of a file; a short one is fetched whole, by one request."""

    def __init__(self, file: RemoteFile) -> None:
        self._file = file
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self.size = REMOTE_BLOCK_BYTES
        first = self._block(0)
        self.size = len(first) if len(first) < REMOTE_BLOCK_BYTES else file.size()

    def read_at(self, at: int, count: int) -> bytes:
        """`count` bytes from `at` on, or as many as there are."""
        parts, stop = [], min(at + count, self.size)
        while at < stop:
            number, skip = divmod(at, REMOTE_BLOCK_BYTES)
            part = self._block(number)[skip : skip + stop - at]
            if not part:
                break  # it became shorter
            parts.append(part)
            at += len(part)
        return b"".join(parts)

    def _block(self, number: int) -> bytes:
        if number in self._blocks:
            self._blocks.move_to_end(number)
        else:
            start = number * REMOTE_BLOCK_BYTES
            self._blocks[number] = self._file.read_range(start, start + REMOTE_BLOCK_BYTES)
            if len(self._blocks) > KEPT_BLOCKS:
                self._blocks.popitem(last=False)
        return self._blocks[number]

    def close(self) -> None:
        """Forget the blocks."""
        self._blocks.clear()


def opened_file(path: Location) -> IO[bytes] | RemoteBytes:
    """The file, or a copy of what comes through a pipe; `-` is standard input."""
    if isinstance(path, RemoteFile):
        return RemoteBytes(path)
    try:
        if str(path) == "-":
            path = Path("/dev/stdin")
        kind = path.stat().st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISFIFO(kind)):
            what = "a folder" if stat.S_ISDIR(kind) else "a device or socket"
            raise InputError(f"it is {what}, not a sound file or a pipe")
        file = path.open("rb", buffering=0)  # a buffer would cost more than all that is read by it
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return file
        copy = tempfile.TemporaryFile()  # noqa: SIM115  the caller closes it
        with file:
            shutil.copyfileobj(file, copy)
        copy.flush()
        return copy
    except OSError as error:
        raise InputError(f"the file cannot be opened: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"the file cannot be opened: {error}") from error


Piece = bytes | tuple[int, int]  # bytes of our own, or from where to where in the file
BLOCK_BYTES = 1 << 16
LONGEST_PATTERN = 16  # bytes of what is searched for


@dataclass
class Layout:
    """The structure of a sound file, by which it is read to its end.

    `parts` are decoded one after another; without any, the file is decoded as it is. `numbers`:
    they are bare sample points, without a header. `frames` is what the container announces, where
    it does.
    """

    parts: list[list[Piece]] = field(default_factory=list)
    numbers: bool = False
    frames: int | None = None
    truncated: bool = False  # ends before what it announces
    damaged: bool = False  # holds bytes that nothing explains
    mended: bool = False  # the sizes in its header are not those of its content
    several: bool = False  # holds further sound that is not read
    unchecked: bool = False  # a container whose sizes are not compared


class ByteSource:
    """The pieces one after another, as a file that can be read and searched.

    `descriptor` is of an open regular file, and stays open; or it is a file behind a URL.
    """

    def __init__(
        self, descriptor: int | RemoteBytes, pieces: Sequence[Piece] | None = None
    ) -> None:
        self.descriptor, self.is_whole = descriptor, pieces is None
        if pieces is None:
            pieces = [(0, _size(descriptor))]
        self.pieces = [piece for piece in pieces if _length(piece)]
        self._starts = [0]
        for piece in self.pieces:
            self._starts.append(self._starts[-1] + _length(piece))
        self.size = self._starts[-1]
        self._block, self._block_at = b"", 0
        self._position = 0

    def at(self, offset: int, count: int) -> bytes:
        """`count` bytes from `offset` on, or as many as there are."""
        begin = offset - self._block_at
        if begin >= 0 and begin + count <= len(self._block):
            return self._block[begin : begin + count]
        if count > BLOCK_BYTES:
            return self._read(offset, count)
        self._block, self._block_at = self._read(offset, BLOCK_BYTES), offset
        return self._block[:count]

    def find(self, pattern: bytes | re.Pattern[bytes], start: int, stop: int | None = None) -> int:
        """Offset of the next `pattern` from `start` to before `stop`; -1 if there is none."""
        search = re.compile(re.escape(pattern) if isinstance(pattern, bytes) else pattern).search
        stop = self.size if stop is None else min(stop, self.size)
        begin = start - self._block_at
        if 0 <= begin < len(self._block) and (match := search(self._block, begin)):
            at = self._block_at + match.start()
            return at if at < stop else -1
        while start < stop:
            if match := search(self._read(start, BLOCK_BYTES + LONGEST_PATTERN)):
                at = start + match.start()
                return at if at < stop else -1
            start += BLOCK_BYTES
        return -1

    def part(self, start: int, stop: int) -> list[Piece]:
        """The pieces that make up the bytes from `start` to `stop`."""
        parts: list[Piece] = []
        for piece, at in zip(self.pieces, self._starts, strict=False):
            low, high = max(start - at, 0), min(stop - at, _length(piece))
            if low < high and isinstance(piece, bytes):
                parts.append(piece[low:high])
            elif low < high:
                parts.append((int(piece[0]) + low, int(piece[0]) + high))
        return parts

    def _read(self, offset: int, count: int) -> bytes:
        found, number = [], bisect_right(self._starts, offset) - 1
        while count > 0 and number < len(self.pieces):
            piece, skip = self.pieces[number], offset - self._starts[number]
            if isinstance(piece, bytes):
                block = piece[skip : skip + count]
            else:
                block = self._from_file(min(count, piece[1] - piece[0] - skip), piece[0] + skip)
            if not block:
                break
            found.append(block)
            offset, count = offset + len(block), count - len(block)
            number += offset >= self._starts[number + 1]
        return b"".join(found)

    def _from_file(self, count: int, at: int) -> bytes:
        if isinstance(self.descriptor, int):
            return os.pread(self.descriptor, count, at)
        return self.descriptor.read_at(at, count)

    def read(self, count: int) -> bytes:
        """The next bytes, as of a file."""
        block = self.at(self._position, count)
        self._position += len(block)
        return block

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}[whence]
        self._position = origin + offset
        return self._position

    def tell(self) -> int:
        return self._position


def _size(file: int | RemoteBytes) -> int:
    return file.size if isinstance(file, RemoteBytes) else os.fstat(file).st_size


def _length(piece: Piece) -> int:
    return len(piece) if isinstance(piece, bytes) else piece[1] - piece[0]


def after_tags(source: ByteSource, at: int) -> int:
    """The end of the tags that begin here."""
    while True:
        head = source.at(at, 32)
        if head[:3] == b"ID3" and len(head) >= 10:
            at += 10 + _sevens(head[6:10])
        elif head[:3] == b"TAG":
            at += 128
        elif head[:8] == b"APETAGEX":
            is_head = head[20:24] and int.from_bytes(head[20:24], "little") >> 29 & 1
            at += 32 + (int.from_bytes(head[12:16], "little") if is_head else 0)
        elif head[:11] == b"LYRICSBEGIN":
            end = source.find(b"LYRICS200", at)
            at = end + 9 if end >= 0 else source.size
        else:
            return min(at, source.size)


def before_tags(source: ByteSource) -> int:
    """The start of the tags at the end of a file; its size where there are none."""
    end = source.size
    while (start := _last_tag(source, end)) < end:
        end = start
    return end


def _last_tag(source: ByteSource, end: int) -> int:
    """Where the tag that ends here begins; `end` if none does."""
    if end >= 128 and source.at(end - 128, 3) == b"TAG":
        return end - 128
    foot = source.at(end - 32, 32) if end >= 32 else b""
    if foot[:8] == b"APETAGEX":
        has_head = int.from_bytes(foot[20:24], "little") >> 31
        return max(0, end - int.from_bytes(foot[12:16], "little") - 32 * has_head)
    if foot[-9:] == b"LYRICS200" and foot[-15:-9].isdigit():
        return max(0, end - 15 - int(foot[-15:-9]))
    at = source.find(b"ID3", max(0, end - ID3_BYTES))
    while 0 <= at < end and at + 10 + _sevens(source.at(at + 6, 4)) != end:
        at = source.find(b"ID3", at + 1)
    return at if 0 <= at < end else end


def _sevens(data: bytes) -> int:
    """The number of which every byte holds seven bits."""
    number = 0
    for byte in data:
        number = number << 7 | byte & 0x7F
    return number
