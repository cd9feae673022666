"""Layout of files that are streams of frames or pages: Ogg, FLAC and MP3."""

from leakdet.acoustics.byte_source import ByteSource, Layout
from leakdet.acoustics.chunk_headers import FILE_NAMES
from leakdet.acoustics.flac_frames import flac_layout
from leakdet.acoustics.mp3_frames import mp3_layout, parse_frame
from leakdet.acoustics.ogg_pages import ogg_layout
from leakdet.acoustics.tags import after_tags, before_tags


def stream_layout(source: ByteSource) -> tuple[ByteSource, Layout, str]:
    """The file without tags around it, its layout, and its kind: ogg, flac, mp3 or other."""
    start, size = after_tags(source, 0), source.size
    name = source.at(start, 4)
    if name in FILE_NAMES:  # their headers say where the sound ends
        return _part(source, start, size), Layout(), "other"
    if name in (b"fLaC", b"OggS"):
        source = _part(source, start, before_tags(source))
        if name == b"fLaC":
            return source, flac_layout(source), "flac"
        layout = ogg_layout(source)
        if layout.parts and source.find(b"\x7fFLAC", 0, 4096) >= 0:
            return source, _unwrapped(source, layout), "flac"
        return source, layout, "ogg"
    if start or parse_frame(name):
        # the decoder skips tags
        return source, mp3_layout(_part(source, 0, before_tags(source))), "mp3"
    return source, Layout(), "other"


def _part(source: ByteSource, start: int, stop: int) -> ByteSource:
    if (start, stop) == (0, source.size):
        return source
    return ByteSource(source.descriptor, source.part(start, max(start, stop)))


def _unwrapped(source: ByteSource, pages: Layout) -> Layout:
    """Layout of FLAC streams that lay in Ogg pages."""
    frames = 0
    for part in pages.parts:
        frames += flac_layout(ByteSource(source.descriptor, part)).frames or 0
    pages.frames = frames
    return pages
