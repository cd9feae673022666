"""Frames and tags of an MP3 file: how many there are, where joined streams begin, damage."""

from dataclasses import dataclass, field

from leakdet.acoustics.containers.source import ByteSource, Layout, Piece, after_tags

_KBPS = {  # by version 1 or not, and layer
    (True, 1): (0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (True, 2): (0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (True, 3): (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (False, 1): (0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (False, 2): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (False, 3): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_HZ = (44100, 48000, 32000)
_KIND = 0xFFFE0C00  # bits of a frame's header that stay the same within a stream
_ROOMY = {True: 9, False: 12}  # index of a bit rate whose frames have room for a Xing header
TRIMMED_FRAMES = 3  # at most so many are left out at the ends, as encoders ask for


@dataclass(frozen=True)
class Mp3Frame:
    """The content of a frame's header."""

    header: int
    size: int
    samples: int

    @property
    def is_mono(self) -> bool:
        return self.header >> 6 & 3 == 3

    @property
    def xing_at(self) -> int:
        """Offset of a Xing header in the frame: behind the side information."""
        if self.header >> 19 & 3 == 3:
            return 21 if self.is_mono else 36
        return 13 if self.is_mono else 21

    def is_like(self, other: "Mp3Frame") -> bool:
        return self.header & _KIND == other.header & _KIND and self.is_mono == other.is_mono


@dataclass
class _Stream:
    """Frames of one kind, and where they lie: its Xing frame, if any, is not counted."""

    first: Mp3Frame
    ranges: list[tuple[int, int]] = field(default_factory=list)
    frames: int = 0
    xing: bytes = b""

    def add(self, start: int, size: int) -> None:
        if self.ranges and self.ranges[-1][1] == start:
            self.ranges[-1] = (self.ranges[-1][0], start + size)
        else:
            self.ranges.append((start, start + size))
        self.frames += 1

    def announced(self) -> int | None:
        at = self.first.xing_at
        has_count = len(self.xing) >= at + 12 and self.xing[at + 7] & 1
        return int.from_bytes(self.xing[at + 8 : at + 12], "big") if has_count else None


def parse_frame(head: bytes) -> Mp3Frame | None:
    """The frame of these four bytes; None if they are none, or of a free bit rate."""
    header = int.from_bytes(head, "big")
    version, layer = header >> 19 & 3, 4 - (header >> 17 & 3)
    bitrate, rate = header >> 12 & 15, header >> 10 & 3
    wrong = len(head) < 4 or header >> 21 != 0x7FF or version == 1 or layer == 4
    if wrong or bitrate in (0, 15) or rate == 3:
        return None
    bits = 1000 * _KBPS[version == 3, layer][bitrate]
    rate_hz = _HZ[rate] >> {3: 0, 2: 1, 0: 2}[version]
    padding = header >> 9 & 1
    samples = 384 if layer == 1 else 576 if layer == 3 and version != 3 else 1152
    if layer == 1:
        return Mp3Frame(header, (12 * bits // rate_hz + padding) * 4, samples)
    return Mp3Frame(header, samples // 8 * bits // rate_hz + padding, samples)


def mp3_layout(source: ByteSource) -> Layout:
    """Layout of an MP3 file, without what is no frame, and with a right count of frames."""
    layout, streams = Layout(frames=0), list[_Stream]()
    at = after_tags(source, 0)
    while at < source.size:
        frame = parse_frame(source.at(at, 4))
        expected = streams[-1].first if streams else None
        known = frame and expected and frame.is_like(expected)
        if frame is None or not (known or _confirmed(source, at, frame)):
            tags_end = after_tags(source, at)
            if tags_end == at and not _is_padding(source, at):
                layout.damaged = True
                at = _next_frame(source, at + 1, expected)
            else:
                at = source.size if tags_end == at else tags_end
            continue
        if at + frame.size > source.size:
            layout.truncated = True
            break
        _add_frame(source, streams, at, frame)
        at += frame.size
    if not streams:
        return Layout(unchecked=True)
    for stream in streams:
        announced = stream.announced()
        lacks = announced is not None and stream.frames < announced
        layout.truncated |= lacks and not layout.damaged
        layout.frames = (layout.frames or 0) + stream.frames * stream.first.samples
    rewrite = len(streams) > 1 or layout.damaged or streams[0].announced() != streams[0].frames
    if rewrite:
        layout.parts = [_pieces(source, stream) for stream in streams if stream.frames]
    return layout


def _add_frame(source: ByteSource, streams: list[_Stream], at: int, frame: Mp3Frame) -> None:
    name = source.at(at + frame.xing_at, 4)
    if name in (b"Xing", b"Info"):
        streams.append(_Stream(frame, xing=source.at(at, frame.size)))
        return
    if not streams or not frame.is_like(streams[-1].first):
        streams.append(_Stream(frame))
    streams[-1].add(at, frame.size)


def _confirmed(source: ByteSource, at: int, frame: Mp3Frame) -> bool:
    """True if a frame of the same kind, or the end, follows."""
    if at + frame.size >= source.size:
        return at + frame.size == source.size
    following = parse_frame(source.at(at + frame.size, 4))
    return following is not None and frame.is_like(following)


def _next_frame(source: ByteSource, at: int, like: Mp3Frame | None) -> int:
    while (at := source.find(b"\xff", at)) >= 0:
        frame = parse_frame(source.at(at, 4))
        if frame and (like is None or frame.is_like(like)) and _confirmed(source, at, frame):
            return at
        at += 1
    return source.size


def _is_padding(source: ByteSource, at: int) -> bool:
    """True if only zeros follow, or too little for a frame's header."""
    return not source.at(at, source.size - at).strip(b"\0") if source.size - at > 3 else True


def _pieces(source: ByteSource, stream: _Stream) -> list[Piece]:
    """The stream's frames behind a Xing header that counts them, since decoders trust it."""
    size = sum(stop - start for start, stop in stream.ranges)
    pieces: list[Piece] = []
    for start, stop in stream.ranges:
        pieces += source.part(start, stop)
    return [_xing_frame(stream, size), *pieces]


def _xing_frame(stream: _Stream, size: int) -> bytes:
    at = stream.first.xing_at
    if stream.announced() is not None:
        frame = bytearray(stream.xing)
    else:
        header = (
            stream.first.header & ~0xF000
            | 0x10000
            | _ROOMY[stream.first.header >> 19 & 3 == 3] << 12
        )
        head = header.to_bytes(4, "big")
        roomy = parse_frame(head)
        frame = bytearray(roomy.size if roomy else 0)
        frame[:4] = head
        frame[at : at + 8] = b"Xing\0\0\0\x03"
    frame[at + 8 : at + 12] = stream.frames.to_bytes(4, "big")
    if frame[at + 7] & 2:
        frame[at + 12 : at + 16] = (size + len(frame)).to_bytes(4, "big")
    return bytes(frame)
