"""Sizes in the headers of uncompressed sound files, compared with the bytes that are there."""

import struct
from dataclasses import dataclass, replace

from leakdet.acoustics.containers.source import ByteSource, Layout, after_tags, before_tags

# written by recorders and pipes that do not know the length, besides 0 and all ones
UNKNOWN = (0x7FFFF000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
NEAR = 64  # some subtract the header
STRAY_BYTES = 4096  # fewer bytes behind the sound are a footer, more of them are sound
CHUNK_NAMES = frozenset(
    "LIST bext cue  smpl fact PEAK iXML aXML axml junk JUNK PAD  FLLR afsp DISP plst inst acid "
    "levl "
    "umid _PMX cart minf elm1 regn strc ID3  id3  note labl INFO bext chna chan info strg mark "
    "COMM MARK INST MIDI AESD APPL NAME AUTH ANNO (c)  COMT FVER CHAN free uuid pakt kuki olym "
    "SyLp Fake Trkn tlst pad  guan GUAN ltxt dlsp GPS  WAMD wamd".split(" ")
) - {""}
W64_HEAD = b"riff\x2e\x91\xcf\x11"
# what uncompressed files begin with, and chunks of sound: behind the sound, they are more of it
FILE_NAMES = (
    b"RIFF",
    b"RIFX",
    b"RF64",
    b"BW64",
    b"FORM",
    b"caff",
    b"riff",
    b".snd",
    b"dns.",
    b"NIST",
)
SOUND_NAMES = (*FILE_NAMES, b"data", b"SSND")


@dataclass
class DataChunk:
    """The chunk that holds the sound, and what its header says of its size."""

    start: int
    size: int | None  # None: it says that it does not know
    size_at: int
    size_format: str  # of struct
    big_endian: bool = False
    besides: int = 0  # bytes that the size counts besides the sound
    may_be_open: bool = False  # the container allows to leave the size open
    reads_on: bool = False  # libsndfile takes what lies behind the sound for sound


def header_layout(source: ByteSource, bytes_per_frame: int, is_plain: bool) -> Layout:
    """Layout of a WAV, AIFF, SVX, CAF, AU, W64 or NIST file; of others it is not known.

    `is_plain`: every sample point takes the same bytes, so that they can be read without a header.
    """
    chunk = _data_chunk(source)
    if chunk is None:
        return Layout(unchecked=True)
    held = source.size - chunk.start
    layout = Layout()
    if chunk.size is None:
        layout.mended = not chunk.may_be_open
        size = held
    elif chunk.size >= held:
        layout.truncated = chunk.size - held >= max(1, bytes_per_frame)
        size = held
    elif _is_more_sound(source, chunk.start + chunk.size, chunk.big_endian):
        layout.several, size = True, chunk.size
    else:
        size = _size_with_unexplained(source, chunk, layout)
    reads_itself = (chunk.size or 0) >= size or chunk.size_format == "none"
    is_caf_cut = layout.truncated and chunk.size_format == ">q"
    if (
        (layout.mended and not reads_itself)
        or is_caf_cut
        or (chunk.size is None and held > 1 << 31)
    ):
        _splice(source, chunk, size, layout, is_plain)
    elif size < held and (chunk.reads_on or layout.several):
        layout.parts = [source.part(0, chunk.start + size)]
    return layout


def byte_order(source: ByteSource, endian: str) -> str:
    """LITTLE or BIG, where libsndfile says FILE: what is usual for the container."""
    if endian in ("LITTLE", "BIG"):
        return endian
    name = source.at(0, 4)
    is_sowt = name == b"FORM" and source.find(b"sowt", 0, 4096) >= 0
    return "BIG" if name in (b"RIFX", b"FORM", b"caff", b".snd") and not is_sowt else "LITTLE"


def _size_with_unexplained(source: ByteSource, chunk: DataChunk, layout: Layout) -> int:
    size = chunk.size or 0
    rest = chunk.start + size
    if _is_explained(source, rest, chunk.big_endian):
        return size
    if source.size - rest < STRAY_BYTES:
        layout.damaged = True
        return size
    layout.mended = True
    return source.size - chunk.start


def _splice(
    source: ByteSource, chunk: DataChunk, size: int, layout: Layout, is_plain: bool
) -> None:
    stop = chunk.start + size
    if is_plain:
        layout.parts, layout.numbers = [source.part(chunk.start, stop)], True
        return
    field = struct.calcsize(chunk.size_format)
    most = (1 << 8 * field - 1) - 1
    patched = struct.pack(chunk.size_format, min(size + chunk.besides, most))
    head = [*source.part(0, chunk.size_at), patched]
    layout.parts = [[*head, *source.part(chunk.size_at + field, stop)]]


def _is_explained(source: ByteSource, at: int, big_endian: bool) -> bool:
    """True if the bytes behind the sound are chunks, tags or zeros."""
    for start in (at, at + 1):
        if _are_chunks(source, start, ">" if big_endian else "<"):
            return True
    return _is_blank(source, at, before_tags(source))


def _is_more_sound(source: ByteSource, at: int, big_endian: bool) -> bool:
    """True if a further file, or chunk of sound, lies behind the sound."""
    order = ">" if big_endian else "<"
    for start in (at, at + 1):
        while len(head := source.at(start, 8)) == 8:
            name, size = struct.unpack(f"{order}4sI", head)
            if name in SOUND_NAMES:
                return True
            if not all(32 <= byte < 127 for byte in name):
                break
            start += 8 + size + size % 2
    return False


def _is_blank(source: ByteSource, at: int, stop: int) -> bool:
    while at < stop:
        block = source.at(at, min(1 << 16, stop - at))
        if block.strip(b"\0"):
            return False
        at += len(block)
    return True


def _are_chunks(source: ByteSource, at: int, order: str) -> bool:
    while source.size - at >= 8:
        name, size = struct.unpack(f"{order}4sI", source.at(at, 8))
        if after_tags(source, at) > at or name.decode("latin-1") in CHUNK_NAMES:
            return True
        if not all(32 <= byte < 127 for byte in name):
            return False
        if at + 8 + size >= source.size:
            return bool(at + 8 + size <= source.size + 1)
        at += 8 + size + size % 2
    return at >= source.size or not source.at(at, source.size - at).strip(b"\0")


def _data_chunk(source: ByteSource) -> DataChunk | None:
    head = source.at(0, 40)
    if head[:4] in (b"RIFF", b"RIFX", b"RF64", b"BW64") and head[8:12] == b"WAVE":
        return _in_riff(source, head[:4])
    if head[:4] == b"FORM" and head[8:12] in (b"AIFF", b"AIFC"):
        return _walk(source, 12, ">4sI", b"SSND", 8)
    if head[:4] == b"FORM" and head[8:12] in (b"8SVX", b"16SV"):
        chunk = _walk(source, 12, ">4sI", b"BODY", 0)
        return chunk and replace(chunk, reads_on=True)
    if head[:4] == b"caff":
        chunk = _walk(source, 8, ">4sq", b"data", 4)
        return chunk and replace(chunk, may_be_open=True)
    if head[:8] == W64_HEAD:
        return _in_w64(source)
    if head[:4] in (b".snd", b"dns."):
        return _in_au(head)
    return _in_nist(source) if head[:7] == b"NIST_1A" else None


def _in_riff(source: ByteSource, name: bytes) -> DataChunk | None:
    order = ">" if name == b"RIFX" else "<"
    chunk = _walk(source, 12, f"{order}4sI", b"data", 0)
    if chunk and name in (b"RF64", b"BW64") and source.at(12, 4) == b"ds64":
        chunk.size, chunk.size_at = struct.unpack("<Q", source.at(28, 8))[0], 28
        chunk.size_format, chunk.reads_on = "<Q", True
        if chunk.size in (0, (1 << 64) - 1):
            chunk.size = None
    elif chunk and (not chunk.size or _means_unknown(chunk.size, source.size - chunk.start)):
        chunk.size = None
    return chunk


def _means_unknown(size: int, held: int) -> bool:
    return bool(size > held) and any(0 <= value - size <= NEAR for value in UNKNOWN)


def _walk(
    source: ByteSource, at: int, head_format: str, name: bytes, offset: int
) -> DataChunk | None:
    """The chunk of this name; its sound begins `offset` bytes into it."""
    length = struct.calcsize(head_format)
    while len(head := source.at(at, length)) == length:
        found, size = struct.unpack(head_format, head)
        size_format = head_format[0] + head_format[-1]
        if found == name:
            start = at + length + offset
            known = None if size < 0 else max(0, size - offset)
            big = head_format[0] == ">"
            return DataChunk(start, known, at + 4, size_format, big, offset)
        if size < 0:
            return None
        at += length + size + (size % 2 if length == 8 else 0)
    return None


def _in_w64(source: ByteSource) -> DataChunk | None:
    at = 40
    while len(head := source.at(at, 24)) == 24:
        (size,) = struct.unpack("<Q", head[16:])
        if head[:4] == b"data":
            known = size - 24 if size >= 24 else None
            return DataChunk(at + 24, known, at + 16, "<Q", besides=24, reads_on=True)
        if size < 24:
            return None
        at += size + -size % 8
    return None


def _in_au(head: bytes) -> DataChunk:
    order = ">" if head[:4] == b".snd" else "<"
    start, size = struct.unpack(f"{order}II", head[4:12])
    known = None if size in (0, 0xFFFFFFFF) else size
    return DataChunk(start, known, 8, f"{order}I", order == ">", may_be_open=True, reads_on=True)


def _in_nist(source: ByteSource) -> DataChunk | None:
    lines = source.at(0, 1024).decode("latin-1").splitlines()
    if len(lines) < 2 or not lines[1].strip().isdigit():
        return None
    fields = dict(line.split(" ", 1) for line in lines[2:] if " " in line)
    numbers = {name: value.split()[-1] for name, value in fields.items() if value.split()}
    try:
        values = [numbers[key] for key in ("sample_count", "channel_count", "sample_n_bytes")]
        count, channels, width = map(int, values)
    except (KeyError, ValueError):
        return None
    return DataChunk(int(lines[1]), count * channels * width, 0, "none", reads_on=True)
