"""Pages of an Ogg file: its links, and whether they are whole."""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from leakdet.acoustics.containers.source import ByteSource, Layout, Piece

CONTINUED, FIRST, LAST = 1, 2, 4  # bits of a page's type
SOUND_HEADS = (b"\x01vorbis", b"OpusHead", b"\x7fFLAC", b"Speex   ")
_MIRRORED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


@dataclass(frozen=True)
class Page:
    """A page whose checksum is right."""

    start: int
    body: int
    stop: int
    kind: int
    serial: int
    number: int


@dataclass
class _Link:
    """Streams that begin together; several links one after another make a chained file."""

    pages: list[Page] = field(default_factory=list)

    def is_begun(self) -> bool:
        return any(not page.kind & FIRST for page in self.pages)

    def is_whole(self) -> bool:
        begun = {page.serial for page in self.pages if page.kind & FIRST}
        return begun == {page.serial for page in self.pages if page.kind & LAST}

    def of_one_stream(self, serial: int) -> "_Link":
        return _Link([page for page in self.pages if page.serial == serial])

    def lacks_pages(self) -> bool:
        last: dict[int, int] = {}
        for page in self.pages:
            if page.number != last.get(page.serial, page.number - 1) + 1:
                return True
            last[page.serial] = page.number
        return False


def ogg_layout(source: ByteSource) -> Layout:
    """Layout of an Ogg file; FLAC in Ogg is unwrapped, since libsndfile may not read it."""
    layout, links, end = Layout(), [_Link()], 0
    for page in ogg_pages(source):
        layout.damaged |= page.start != end
        end = page.stop
        if page.kind & FIRST and links[-1].is_begun():
            links.append(_Link())
        links[-1].pages.append(page)
    layout.truncated = not all(link.is_whole() for link in links)
    # a last page that is cut off is no damage
    rest = source.at(end, min(source.size - end, 1 << 16))
    layout.damaged |= bool(rest.strip(b"\0")) and not layout.truncated
    layout.damaged |= any(link.lacks_pages() for link in links)
    for number, link in enumerate(links):
        sounds = _sounds(source, link)
        if len(sounds) > 1:
            layout.several, links[number] = True, link.of_one_stream(sounds[0])
    if links[0].pages and source.at(links[0].pages[0].body, 5) == b"\x7fFLAC":
        layout.parts = [_flac_pieces(source, link) for link in links]
    elif layout.several:
        layout.parts = [_pieces(source, link.pages) for link in links]
    elif len(links) > 1:
        bounds = [*(link.pages[0].start for link in links), source.size]
        layout.parts = [source.part(*limits) for limits in pairwise(bounds)]
    return layout


def ogg_pages(source: ByteSource) -> Iterator[Page]:
    """The pages whose checksums are right, in the order of the file."""
    at = source.find(b"OggS", 0)
    while at >= 0:
        page = _page(source, at)
        if page:
            yield page
        next_at = page.stop if page else at + 1
        at = next_at if source.at(next_at, 4) == b"OggS" else source.find(b"OggS", next_at)


def _page(source: ByteSource, start: int) -> Page | None:
    head = source.at(start, 27)
    if len(head) < 27:
        return None
    kind, _, serial, number, checksum, segments = struct.unpack("<BQIIIB", head[5:])
    table = source.at(start + 27, segments)
    body = start + 27 + segments
    stop = body + sum(table)
    page = source.at(start, stop - start)
    blanked = page[:22] + bytes(4) + page[26:]
    if len(table) < segments or len(page) < stop - start or _crc32(blanked) != checksum:
        return None
    return Page(start, body, stop, kind, serial, number)


def _crc32(data: bytes) -> int:
    """Ogg's CRC, which is zlib's with the bits in the other order, from 0 and not inverted."""
    mirrored = zlib.crc32(data.translate(_MIRRORED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{mirrored:032b}"[::-1], 2)


def _sounds(source: ByteSource, link: _Link) -> list[int]:
    """The serial numbers of the streams of sound in a link; several lie side by side."""
    first = [page for page in link.pages if page.kind & FIRST]
    return [page.serial for page in first if source.at(page.body, 8).startswith(SOUND_HEADS)]


def _pieces(source: ByteSource, pages: list[Page]) -> list[Piece]:
    return [piece for page in pages for piece in source.part(page.start, page.stop)]


def _flac_pieces(source: ByteSource, link: _Link) -> list[Piece]:
    """The FLAC stream in the pages of a link: without Ogg, and the 9 bytes of its mapping."""
    pages = link.of_one_stream(link.pages[0].serial).pages
    starts = [pages[0].body + 9, *(page.body for page in pages[1:])]
    pieces: list[Piece] = []
    for start, page in zip(starts, pages, strict=True):
        pieces += source.part(start, page.stop)
    return pieces
