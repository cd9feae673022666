"""Layout of files that are streams of frames or pages: Ogg, FLAC and MP3."""

from leakdet.acoustics.byte_source import ByteSource, Layout
from leakdet.acoustics.flac_frames import flac_layout
from leakdet.acoustics.mp3_frames import mp3_layout, parse_frame
from leakdet.acoustics.ogg_pages import ogg_layout


def stream_layout(source: ByteSource) -> tuple[Layout, str]:
    """The layout of a file, and its kind: ogg, flac, mp3 or other."""
    start = 0
    head = source.at(0, 10)
    if head[:3] == b"ID3" and len(head) == 10:
        size = 0
        for byte in head[6:]:
            size = size << 7 | byte & 0x7F
        start = 10 + size
    name = source.at(start, 4)
    if name == b"fLaC":
        return flac_layout(source), "flac"
    if name == b"OggS":
        layout = ogg_layout(source)
        if layout.parts and source.find(b"\x7fFLAC", 0, 4096) >= 0:
            return _unwrapped(source, layout), "flac"
        return layout, "ogg"
    if start or parse_frame(name):
        return mp3_layout(source), "mp3"
    return Layout(), "other"


def _unwrapped(source: ByteSource, pages: Layout) -> Layout:
    """Layout of FLAC streams that lay in Ogg pages."""
    frames = 0
    for part in pages.parts:
        frames += flac_layout(ByteSource(source.descriptor, part)).frames or 0
    pages.frames = frames
    return pages
