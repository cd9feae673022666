"""Frames of FLAC streams: several in a row, totals that are missing, where to go on."""

import re
import struct
from dataclasses import dataclass
from itertools import pairwise

from leakdet.acoustics.containers.source import ByteSource, Layout, Piece

# with the head of its first block, which is of 34 bytes and may be the last one
STREAM = re.compile(rb"fLaC[\x00\x80]\x00\x00\x22")
FRAME = re.compile(rb"\xff[\xf8\xf9]")
INFO_END = 42
TAIL_BYTES = 1 << 16  # searched for frames behind the total
LAST_FRAMES_BYTES = 1 << 20  # searched for the last frame; a frame is far smaller


@dataclass(frozen=True)
class FlacFrame:
    """Offset of a frame, and the sample points of the stream that it holds."""

    at: int
    first: int
    samples: int


def flac_layout(source: ByteSource) -> Layout:
    """Layout of one or several FLAC streams; a missing total is taken from the last frame."""
    starts = _stream_starts(source)
    if not starts:
        return Layout()
    layout = Layout(frames=0)
    bounds = [*starts, source.size]
    for start, stop in pairwise(bounds):
        stream = ByteSource(source.descriptor, source.part(start, stop))
        pieces, total, held = list(stream.pieces), _total(stream), _held(stream)
        if held > total:
            layout.mended, total = True, held
            # a stream without a total is decoded to its end
            head = stream.at(0, 21) + bytes([stream.at(21, 1)[0] & 0xF0, 0, 0, 0, 0])
            pieces = [head, *stream.part(len(head), stream.size)]
        layout.parts.append(pieces)
        layout.frames = (layout.frames or 0) + total
    if len(starts) == 1 and not layout.mended:
        layout.parts = []
    return layout


def _stream_starts(source: ByteSource) -> list[int]:
    starts, at = [], 0
    while (at := source.find(STREAM, at)) >= 0:
        starts.append(at)
        at += 4
    return starts


def _total(stream: ByteSource) -> int:
    total = int.from_bytes(stream.at(21, 5), "big") & 0xF_FFFF_FFFF
    if total:
        return total
    last = _last_frame(stream)
    return last.first + last.samples if last else 0


def _held(stream: ByteSource) -> int:
    """Sample points up to the last frame near the end that follows another, or is the first.

    One header alone may be found by chance.
    """
    held, end, at = 0, 0, max(INFO_END, stream.size - TAIL_BYTES)
    while (frame := next_frame(stream, at)) is not None:
        if frame.first == end:
            held = max(held, frame.first + frame.samples)
        end, at = frame.first + frame.samples, frame.at + 4
    return held


def _last_frame(stream: ByteSource) -> FlacFrame | None:
    frame, at = None, max(INFO_END, stream.size - LAST_FRAMES_BYTES)
    while (following := next_frame(stream, at)) is not None:
        frame, at = following, following.at + 4
    return frame


def next_frame(stream: ByteSource, at: int) -> FlacFrame | None:
    """The first frame from byte `at` on whose header has a right checksum."""
    while True:
        at = stream.find(FRAME, at)
        if at < 0:
            return None
        frame = _frame(stream, at)
        if frame:
            return frame
        at += 1


def resumed(stream: ByteSource, samples: int) -> tuple[list[Piece], FlacFrame] | None:
    """The stream from the first frame that begins after `samples`, and that frame."""
    at = INFO_END
    while (frame := next_frame(stream, at)) is not None:
        if frame.first > samples:
            # the head of the stream, without further metadata
            head = stream.at(0, 4) + b"\x80" + stream.at(5, INFO_END - 5)
            return [head, *stream.part(frame.at, stream.size)], frame
        at = frame.at + 4
    return None


def _frame(stream: ByteSource, at: int) -> FlacFrame | None:
    head = stream.at(at, 16)
    if len(head) < 6 or head[2] >> 4 == 0 or head[3] & 1:
        return None
    length = 1 if head[4] < 0x80 else 8 - (head[4] ^ 0xFF).bit_length()
    number = head[4] if length == 1 else head[4] & (0x7F >> length)
    for byte in head[5 : 4 + length]:
        number = number << 6 | byte & 0x3F
    end, code = 4 + length, head[2] >> 4
    if code in (6, 7):
        samples = int.from_bytes(head[end : end + code - 5], "big") + 1
        end += code - 5
    else:
        samples = 192 if code == 1 else 576 << (code - 2) if code < 6 else 256 << (code - 8)
    end += {12: 1, 13: 2, 14: 2}.get(head[2] & 15, 0)
    if end >= len(head) or _crc8(head[:end]) != head[end]:
        return None
    (block,) = struct.unpack(">H", stream.at(8, 2))  # in a stream of frames of one length
    return FlacFrame(at, number * block if head[1] == 0xF8 else number, samples)


def _crc8(data: bytes) -> int:
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc << 1 ^ 0x07) & 0xFF if crc & 0x80 else crc << 1
    return crc
