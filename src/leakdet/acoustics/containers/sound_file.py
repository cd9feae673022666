"""A sound file read from front to back, to its end, whatever its header says."""

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import soundfile

from leakdet.acoustics.containers.flac import flac_layout, resumed
from leakdet.acoustics.containers.mp3 import TRIMMED_FRAMES, mp3_layout, parse_frame
from leakdet.acoustics.containers.ogg import ogg_layout
from leakdet.acoustics.containers.riff import FILE_NAMES, byte_order, header_layout
from leakdet.acoustics.containers.source import (
    ByteSource,
    Layout,
    Piece,
    RemoteBytes,
    after_tags,
    before_tags,
    opened_file,
)
from leakdet.acoustics.measures import Flag
from leakdet.core.errors import InputError
from leakdet.core.files import POINTER, POINTER_START
from leakdet.core.locations import Location, Span

_lock = threading.Lock()
_users = 0
_kept = -1


@contextmanager
def native_stderr_hidden() -> Iterator[None]:
    """Send file descriptor 2 to the null device; threads may overlap.

    Lines that Python prints meanwhile are lost too, so hold it for single calls only.
    """
    global _users, _kept
    with _lock:
        if _users == 0:
            _kept = _redirected()
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0 and _kept >= 0:
                os.dup2(_kept, 2)
                os.close(_kept)


def _redirected() -> int:
    try:
        kept = os.dup(2)
    except OSError:
        return -1  # standard error is closed
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    os.close(null)
    return kept


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


SAMPLE_BYTES = {"PCM_S8": 1, "PCM_U8": 1, "PCM_16": 2, "PCM_24": 3, "PCM_32": 4}
SAMPLE_BYTES |= {"FLOAT": 4, "DOUBLE": 8, "ULAW": 1, "ALAW": 1}
RATES_HZ = range(100, 10_000_001)  # others in a header are damage
BLOCK_POINTS = 1 << 24  # sample points of all channels that are decoded at a time
SLACK_S = 0.01  # by which a span may exceed its file: tables round
RESCUE_FRAMES = 64  # read at a time up to a place that cannot be decoded


class _ForwardFile(soundfile.SoundFile):  # type: ignore[misc]  # it has no types
    """Does not seek to where it is after every block, which fails in streams without a total."""

    def seekable(self) -> bool:
        return False

    def flush(self) -> None:
        """Nothing: it is only read, and closing it would wait for the disk."""


def beyond_end(span: Span, end_s: float) -> InputError | None:
    """The error where a span is no part of sound of this length."""
    if span.end_s <= end_s + SLACK_S:
        return None
    return InputError(f"its sound ends at {end_s:.10g} s, before the end of {span}")


class SoundFile:
    """The part of `soundfile.SoundFile` that `SoundStream` uses, for files of any structure.

    Streams that are chained or concatenated are read one after another. What cannot be decoded is
    left out; `flags` names it when all has been read. Of a `span`, only its seconds are read.
    """

    def __init__(self, path: Location, span: Span | None = None) -> None:
        self.path, self.span = path, span
        file = self._file = opened_file(path)
        try:
            self._source = ByteSource(file if isinstance(file, RemoteBytes) else file.fileno())
            self._start()
        except BaseException:
            self._file.close()
            raise

    def _start(self) -> None:
        if not self._source.size:
            raise InputError("the file is empty (0 bytes)")
        if self._source.at(0, len(POINTER_START)) == POINTER_START:
            raise InputError(f"it is {POINTER}")
        self._source, self._layout, self._kind = stream_layout(self._source)
        self._parts: list[list[Piece] | None] = [*self._layout.parts]
        if not self._parts:
            self._parts = [None if self._source.is_whole else self._source.pieces]
        self._failed = False
        if self._kind == "other":
            self._start_plain()
        else:
            self._decoder = self._decoder_of(self._parts[0])
        self.samplerate, self.channels = self._decoder.samplerate, self._decoder.channels
        self.subtype = self._decoder.subtype
        # 16-bit values are converted twice as fast by NumPy as by libsndfile, but not those of FLAC
        self.reads_int16 = self._kind == "other" and self.subtype == "PCM_16"
        self._ended = False  # the part that is read
        self._part = self._part_frames = self._frames = 0
        self._origin = 0  # of a resumed FLAC stream: its first sample point
        self._stop = sys.maxsize  # sample points up to here are read
        if self.samplerate not in RATES_HZ:
            self._decoder.close()
            raise InputError(
                f"its header says {self.samplerate} Hz, and rates from {RATES_HZ[0]} to "
                f"{RATES_HZ[-1]} Hz can be read"
            )
        if self._decoder.frames == 0:
            self._decoder.close()
            raise InputError("the file has a header but no sound")
        if self.span:
            self._go_to(round(self.span.start_s * self.samplerate))
            self._stop = round(self.span.end_s * self.samplerate)

    def _go_to(self, start: int) -> None:
        """Skip the sample points before `start`; decodes them, but for plain files."""
        is_plain = self._kind == "other" and self.subtype in SAMPLE_BYTES
        if is_plain and len(self._parts) == 1:
            self._frames = self._part_frames = min(start, int(self._decoder.frames))
            self._decoder.seek(self._frames)
        self._stop = start
        while len(self.read(1 << 16)):
            pass

    def _start_plain(self) -> None:
        try:
            decoder = self._decoder_of(self._parts[0])
        except InputError:
            self._layout = header_layout(self._source, 1, is_plain=False)
            if not self._layout.parts:
                raise
            self._parts = [*self._layout.parts]
            self._decoder = self._decoder_of(self._parts[0])
            return
        width = SAMPLE_BYTES.get(decoder.subtype)
        bytes_per_frame = (width or 1) * decoder.channels
        self._layout = header_layout(self._source, bytes_per_frame, width is not None)
        self._decoder = decoder
        if self._layout.parts:
            self._parts = [*self._layout.parts]
            self._decoder = self._decoder_of(self._parts[0], decoder)
            decoder.close()

    def _decoder_of(
        self, part: Sequence[Piece] | None, header: soundfile.SoundFile | None = None
    ) -> _ForwardFile:
        descriptor = self._source.descriptor
        how: dict[str, Any] = {}
        if self._layout.numbers and header:
            how = {
                "format": "RAW",
                "subtype": header.subtype,
                "endian": byte_order(self._source, header.endian),
                "samplerate": header.samplerate,
                "channels": header.channels,
            }
        source: int | ByteSource
        if part is None and isinstance(descriptor, int):
            source = descriptor
            os.lseek(descriptor, 0, os.SEEK_SET)
        else:
            source = ByteSource(descriptor, part)
        try:
            with self._quiet():
                return _ForwardFile(source, closefd=False, **how)
        except soundfile.LibsndfileError as error:
            reason = error.error_string.rstrip(".")
            raise InputError(f"not readable as audio: {reason}") from error

    def _quiet(self) -> Any:
        return native_stderr_hidden() if self._kind == "mp3" else nullcontext()

    def header_frames(self) -> int:
        """Length by the header; 0 where it cannot be so, or is of a part."""
        frames = int(self._decoder.frames)
        return frames if 0 < frames < 64 * self._source.size and len(self._parts) == 1 else 0

    def about_frames(self) -> int:
        """Length by the header, or by the size of the file if 16-bit, where it cannot be so."""
        return self.header_frames() or self._source.size // (2 * self.channels)

    def announced_frames(self) -> int:
        """Sample points that its structure announces, as its decoder will give at most."""
        frames = self._layout.frames
        return int(self._decoder.frames) if frames is None else frames

    def __enter__(self) -> "SoundFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._decoder.close()
        self._file.close()

    def rewind(self) -> None:
        """Begin again."""
        self._decoder.close()
        self._start()

    def read(self, frames: int, dtype: str = "float32", always_2d: bool = True) -> np.ndarray:
        """The next sample points [N, channels], at most `frames` of them; none at the end."""
        frames = min(frames, max(1, BLOCK_POINTS // self.channels), self._stop - self._frames)
        while frames > 0:
            block = self._next_block(frames, dtype)
            if len(block):
                self._frames += len(block)
                return block
            if not self._next_part():
                self._require_end()
                break
        return np.empty((0, self.channels), dtype)

    def _require_end(self) -> None:
        """Refuse a span that reaches beyond the sound."""
        if self.span and (error := beyond_end(self.span, self._frames / self.samplerate)):
            raise error

    def _next_block(self, frames: int, dtype: str) -> np.ndarray:
        if self._failed or self._ended:
            return np.empty((0, self.channels), dtype)
        try:
            block = self._decoded(frames, dtype)
            # of a plain file a further call would cost as much as reading a second of sound
            self._ended = len(block) < frames and self._kind == "other"
        except soundfile.LibsndfileError:
            block = self._rescued(dtype)
            self._failed = True
        self._part_frames += len(block)
        # sound behind what could not be decoded: it was no cut
        self._layout.damaged |= self._origin > 0 and len(block) > 0
        return block

    def _decoded(self, frames: int, dtype: str) -> np.ndarray:
        with self._quiet():
            block: np.ndarray = self._decoder.read(frames, dtype=dtype, always_2d=True)
        return block

    def _rescued(self, dtype: str) -> np.ndarray:
        """The sound between the last block and the place that cannot be decoded."""
        self._reopen()
        blocks = [np.empty((0, self.channels), dtype)]
        try:
            skip = self._part_frames
            while skip and len(block := self._decoded(min(skip, 1 << 16), dtype)):
                skip -= len(block)
            while len(block := self._decoded(RESCUE_FRAMES, dtype)):
                blocks.append(block)
        except soundfile.LibsndfileError:
            pass
        return np.concatenate(blocks)

    def _reopen(self) -> None:
        self._decoder.close()
        self._decoder, self._ended = self._decoder_of(self._parts[self._part]), False

    def _next_part(self) -> bool:
        """Go on behind what cannot be decoded, or with the next stream."""
        if self._failed and self._resume():
            return True
        self._part, self._part_frames, self._origin = self._part + 1, 0, 0
        self._failed = False
        if self._part >= len(self._parts):
            return False
        self._reopen()
        if (self._decoder.samplerate, self._decoder.channels) != (self.samplerate, self.channels):
            raise InputError(
                f"stream {self._part + 1} of the file has {self._decoder.samplerate} Hz and "
                f"{self._decoder.channels} channels, the first has {self.samplerate} Hz and "
                f"{self.channels}; save them as files of their own."
            )
        return True

    def _resume(self) -> bool:
        if self._kind != "flac":
            self._layout.truncated = self._layout.damaged = True
            return False
        part = self._parts[self._part]
        stream = ByteSource(self._source.descriptor, part)
        following = resumed(stream, self._origin + self._part_frames)
        if following is None:
            self._layout.truncated = True
            return False
        self._parts[self._part], frame = following
        self._origin, self._part_frames, self._failed = frame.first, 0, False
        self._reopen()
        return True

    def flags(self) -> list[Flag]:
        """Those of the reading, such as `truncated`, known when all has been read."""
        layout = self._layout
        if self.span:
            pass  # nobody has looked for the end
        elif layout.frames is not None:
            slack = TRIMMED_FRAMES * 1152 if self._kind == "mp3" else 0
            lacks = self._frames < layout.frames - slack * len(self._parts)
            layout.truncated |= lacks and not layout.damaged
        elif self._kind == "ogg" and not layout.parts:
            layout.damaged |= self._frames < self._decoder.frames
        elif self._kind == "other" and not layout.parts:
            layout.truncated |= self._frames < self._decoder.frames
        names: dict[Flag, bool] = {
            "truncated": layout.truncated,
            "damaged": layout.damaged,
            "header_mended": layout.mended,
            "several_streams": layout.several,
            "unchecked": layout.unchecked,
        }
        return [name for name, is_met in names.items() if is_met]
