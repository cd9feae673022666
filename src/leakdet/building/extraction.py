"""Decodes recordings and computes their log-mel, many at a time, in order; finds equal content.

A worker writes mel and sound of a batch into a file each, in the folder of the build, which it must
see, and returns the rows. So neither it nor this process holds a batch in memory.
"""

import hashlib
import shutil
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import SpooledTemporaryFile, mkdtemp
from typing import IO, Protocol, cast
from uuid import uuid4

import numpy as np
from jaxtyping import Bool

from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.surrogates import SurrogateTransform
from leakdet.acoustics.windows import MelStream
from leakdet.building.report import BuildReport
from leakdet.building.sources import LeftOut, SourceRecording, printable
from leakdet.config import BuildConfig, SignalConfig
from leakdet.core.errors import InputError
from leakdet.core.locations import Location
from leakdet.core.parallel import Engine, cluster, in_order
from leakdet.storage.writer import BinaryFile, RecordingRow, SplitWriter

SPOOL_BYTES = 16 << 20  # kept in memory per recording; a longer one is spooled to disk


class SpoolFile(BinaryFile, Protocol):
    """A file of raw numbers, which is of no use any more once it is closed."""

    def close(self) -> None: ...


@dataclass
class ExtractedRecording:
    """One recording as a worker thread returns it; mel and sound are raw numbers in spool files."""

    row: RecordingRow
    mel: SpoolFile
    sound: SpoolFile | None

    def close(self) -> None:
        """Remove the spool files."""
        self.mel.close()
        if self.sound is not None:
            self.sound.close()


# Extracts recordings, in their order; the second argument hears how many more are done.
Extraction = Callable[
    [Sequence[SourceRecording], Callable[[int], None]], Iterator[ExtractedRecording | LeftOut]
]


@dataclass(frozen=True)
class Extractor:
    """Extracts one recording per call, in any thread.

    `waveform` is the number format of the stored sound or none; `folder` is where the store is
    built and `out` where it will be.
    """

    log_mel: LogMel
    waveform: str
    folder: Path
    out: Path

    def __call__(self, recording: SourceRecording) -> ExtractedRecording | LeftOut:
        mel = self._spool()
        sound = self._spool() if self.waveform != "none" else None
        name = recording.recording_id if recording.surrogate_of else None
        stream = mel_stream(recording.path, self.log_mel, name, recording.channel, True)
        live, written_until = [], 0
        try:
            for block in stream:
                mel.write(block.mel.numpy().data.cast("B"))
                live.append(block.live)
                if sound is not None:
                    fresh = block.chunk.sound[max(0, written_until - block.chunk.start_sample) :]
                    sound.write(_as_stored(fresh, self.waveform))
                    written_until = block.chunk.start_sample + len(block.chunk.sound)
        except InputError as error:
            mel.close()
            if sound is not None:
                sound.close()
            return LeftOut(recording.recording_id, str(error))
        return ExtractedRecording(self._row(recording, stream, np.concatenate(live)), mel, sound)

    def _spool(self) -> IO[bytes]:
        return cast(IO[bytes], SpooledTemporaryFile(max_size=SPOOL_BYTES, dir=str(self.folder)))

    def _row(
        self, recording: SourceRecording, stream: MelStream, live: Bool[np.ndarray, " W"]
    ) -> RecordingRow:
        facts = stream.facts
        path = recording.path.absolute()
        # the demo's audio is published together with the store
        if isinstance(path, Path) and path.is_relative_to(self.folder):
            path = self.out / path.relative_to(self.folder)
        content, flags = facts.content_sha256, [*facts.flags]
        if recording.surrogate_of:
            content = hashlib.sha256(f"{content} {recording.recording_id}".encode()).hexdigest()
            flags.insert(0, "surrogate")
        return RecordingRow(
            recording_id=recording.recording_id,
            path=printable(str(path)),
            label=recording.label,
            groups=recording.groups,
            weight=recording.weight,
            content_sha256=content,
            duration_s=facts.duration_s,
            source_rate_hz=facts.source_rate_hz,
            rms_dbfs=facts.rms_dbfs,
            dc_offset=facts.dc_offset,
            clipped_fraction=facts.clipped_fraction,
            flags=flags,
            windows=len(live),
            mel_crc32=0,
            mains_hum_50_db=facts.mains_hum_db[0],
            mains_hum_60_db=facts.mains_hum_db[1],
            surrogate_of=recording.surrogate_of,
            channel=recording.channel,
            live=live,
        )


def mel_stream(
    path: Location,
    log_mel: LogMel,
    surrogate: str | None = None,
    channel: int = 0,
    with_hum: bool = False,
) -> MelStream:
    """The log-mel of a recording, or of its surrogate of this name; `with_hum` measures hum."""
    transform = None
    if surrogate is not None:
        transform = SurrogateTransform(surrogate, log_mel.signal.sample_rate_hz)
    return MelStream(path, log_mel, transform, channel, with_hum)


def _as_stored(sound: np.ndarray, dtype: str) -> bytes:
    if dtype == "float32":
        return sound.tobytes()
    return np.clip(np.round(sound * 32768.0), -32768, 32767).astype("<i2").tobytes()


@dataclass(frozen=True)
class StoredRecording:
    """A recording of the store to which others are added."""

    recording_id: str
    content_sha256: str
    split: str
    label: str


@dataclass
class DuplicateFilter:
    """Keeps the first of equal recordings, and none of them if their labels differ.

    What is `stored` already stays as it is, and no recording is added under its name.
    """

    writers: dict[str, SplitWriter]
    report: BuildReport
    stored: Sequence[StoredRecording] = ()
    _first: dict[str, tuple[str, SourceRecording]] = field(default_factory=dict)
    _contradictory: set[str] = field(default_factory=set)

    def admit(self, recording: SourceRecording, content: str, split: str) -> bool:
        """Decide whether to write this recording, of hash `content`; report the reason if not.

        If two labels contradict each other, the first recording is removed from its writer.
        """
        if self._is_stored(recording, content):
            return False
        first_split, first = self._first.setdefault(content, (split, recording))
        if first is recording:
            return True
        if first.label == recording.label and content not in self._contradictory:
            self._leave_out(recording, f"the same sound as {first.recording_id}")
            return False
        self._leave_out(recording, _contradiction(recording, first))
        if content not in self._contradictory:
            self._contradictory.add(content)
            self.writers[first_split].remove(first.recording_id)
            self._leave_out(first, _contradiction(first, recording))
        return False

    @cached_property
    def _stored_content(self) -> dict[str, StoredRecording]:
        return {recording.content_sha256: recording for recording in self.stored}

    @cached_property
    def _stored_names(self) -> set[str]:
        return {recording.recording_id for recording in self.stored}

    def _is_stored(self, recording: SourceRecording, content: str) -> bool:
        """True if the store has this sound or this name, which is then reported."""
        if same := self._stored_content.get(content):
            reason = f"the same sound as {same.recording_id} ({same.label}), in {same.split}"
            self._leave_out(recording, reason)
            return True
        if recording.recording_id in self._stored_names:
            reason = "the store has another recording of this name; give a path that differs"
            self._leave_out(recording, reason)
            return True
        return False

    def _leave_out(self, recording: SourceRecording, reason: str) -> None:
        self.report.left_out.append(LeftOut(recording.recording_id, reason))


def _contradiction(recording: SourceRecording, other: SourceRecording) -> str:
    if recording.label == other.label:
        return f"the same sound as {other.recording_id}, which occurs with two labels"
    return f"the same sound as {other.recording_id} ({other.label}), but labelled {recording.label}"


# A batch takes some tenths of a second, and its way to a worker and back a hundredth.
BATCH_RECORDINGS = 64
BATCH_S = 600.0  # of sound
SURROGATE_WORK = 100  # of a surrogate, where that of a recording is 1


@contextmanager
def extraction_engine(config: BuildConfig) -> Iterator["ExtractionEngine"]:
    """Connect to the workers of `config.cluster`, or to none."""
    with ExitStack() as stack:
        engine = stack.enter_context(cluster(config.cluster)) if config.cluster else None
        yield ExtractionEngine(config.workers, engine)


@dataclass(frozen=True)
class ExtractionEngine:
    """Extracts by `threads` (0: one per core) or, where there is one, by a `cluster`."""

    threads: int = 0
    cluster: Engine | None = None

    def __call__(
        self,
        extract: Extractor,
        about_s: Mapping[Location, float],
        recordings: Sequence[SourceRecording],
        step: Callable[[int], None],
    ) -> Iterator[ExtractedRecording | LeftOut]:
        """Extract each recording, in their order; `about_s` are the lengths of files.

        `step` hears how many more are done, which may be before their turn.
        """
        if self.cluster is None:
            for _, extracted in in_order(extract, recordings, self.threads):
                step(1)
                yield extracted
            return
        place = Path(mkdtemp(prefix=".extracted-", dir=extract.folder))
        try:
            work = BatchExtractor(
                extract.log_mel.signal, extract.waveform, extract.folder, extract.out, place
            )
            results = self.cluster.unordered(work, batches(recordings, about_s))
            with closing(results):
                for result in _in_their_order(results, step):
                    yield from result.opened()
        finally:
            # a worker that was given up but lives finds no place to write to
            shutil.rmtree(place, ignore_errors=True)


@dataclass(frozen=True)
class Batch:
    """Recordings that a worker extracts at a time."""

    number: int
    recordings: Sequence[SourceRecording]

    def __str__(self) -> str:
        names = [recording.recording_id for recording in self.recordings]
        return names[0] if len(names) == 1 else f"one of {names[0]} to {names[-1]} ({len(names)})"


def batches(
    recordings: Iterable[SourceRecording], about_s: Mapping[Location, float]
) -> Iterator[Batch]:
    """Cut the recordings into batches of about equal work."""
    batch, number, seconds = list[SourceRecording](), 0, 0.0
    for recording in recordings:
        length = about_s[recording.path] * (SURROGATE_WORK if recording.surrogate_of else 1)
        if batch and (len(batch) == BATCH_RECORDINGS or seconds + length > BATCH_S):
            yield Batch(number, batch)
            batch, number, seconds = [], number + 1, 0.0
        batch.append(replace(recording, path=recording.path.absolute()))
        seconds += length
    if batch:
        yield Batch(number, batch)


@dataclass(frozen=True)
class Stored:
    """A recording that a worker extracted, and how many bytes it has in the files of its batch."""

    row: RecordingRow
    mel_bytes: int
    sound_bytes: int


@dataclass(frozen=True)
class ExtractedBatch:
    """What a worker returns: its files, what is in them, and what could not be read."""

    host: str
    mel: Path
    sound: Path | None
    items: Sequence[Stored | LeftOut]
    unseen: Sequence[Path]  # there is no such file where the worker runs

    def opened(self) -> Iterator[ExtractedRecording | LeftOut]:
        """The recordings as a thread would have returned them; the files are removed at the end."""
        for path in self.unseen:
            if path.exists():
                raise InputError(
                    f"cluster: the worker on {self.host} does not see {path}. Recordings must lie "
                    "on a disk that all machines see, under the same path."
                )
        with ExitStack() as stack:
            mel = stack.enter_context(self.mel.open("rb"))
            sound = stack.enter_context(self.sound.open("rb")) if self.sound else None
            for item in self.items:
                if isinstance(item, LeftOut):
                    yield item
                    continue
                yield ExtractedRecording(
                    item.row,
                    _Piece(mel, item.mel_bytes),
                    _Piece(sound, item.sound_bytes) if sound else None,
                )
        for file in (self.mel, self.sound):
            if file is not None:
                file.unlink()


class _Piece:
    """The next `size` bytes of a file, read as a file of their own."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self._start, self._size = file, file.tell(), size
        file.seek(size, 1)

    def seek(self, offset: int, /) -> int:
        return self._file.seek(self._start + offset) - self._start

    def read(self, size: int, /) -> bytes:
        left = self._start + self._size - self._file.tell()
        return self._file.read(max(0, min(size, left)))

    def close(self) -> None:
        """Be ready for the next piece."""
        self._file.seek(self._start + self._size)


@dataclass(frozen=True)
class BatchExtractor:
    """Extracts a batch in a worker, into files in `place`; the others are as of `Extractor`."""

    signal: SignalConfig
    waveform: str
    folder: Path
    out: Path
    place: Path

    def __call__(self, batch: Batch) -> ExtractedBatch:
        if not self.place.is_dir():
            raise InputError(
                f"cluster: the worker on {socket.gethostname()} does not see {self.folder}, where "
                "the store is built. It must lie on a disk that all machines see, under the same "
                "path."
            )
        extract = Extractor(LogMel(self.signal), self.waveform, self.folder, self.out)
        name = f"{batch.number}-{uuid4().hex}"  # a batch may be done again while one is still at it
        mel, sound = self.place / f"{name}.mel", self.place / f"{name}.sound"
        items, unseen = list[Stored | LeftOut](), list[Path]()
        with ExitStack() as stack:
            to_mel = stack.enter_context(mel.open("wb"))
            to_sound = stack.enter_context(sound.open("wb")) if self.waveform != "none" else None
            for recording in batch.recordings:
                extracted = extract(recording)
                if isinstance(extracted, LeftOut):
                    items.append(extracted)
                    if isinstance(recording.path, Path) and not recording.path.exists():
                        unseen.append(recording.path)
                    continue
                with closing(extracted):
                    sound_bytes = 0
                    if extracted.sound is not None and to_sound is not None:
                        sound_bytes = _copy(extracted.sound, to_sound)
                    items.append(Stored(extracted.row, _copy(extracted.mel, to_mel), sound_bytes))
        return ExtractedBatch(
            socket.gethostname(), mel, sound if to_sound is not None else None, items, unseen
        )


def _copy(source: BinaryFile, target: IO[bytes]) -> int:
    """Append all of `source`; return how many bytes these are."""
    source.seek(0)
    start = target.tell()
    while block := source.read(1 << 20):
        target.write(block)
    return target.tell() - start


def _in_their_order(
    results: Iterable[tuple[Batch, ExtractedBatch]], step: Callable[[int], None]
) -> Iterator[ExtractedBatch]:
    """The results by the number of their batch; what comes early waits, on the disk."""
    early: dict[int, ExtractedBatch] = {}
    number = 0
    for batch, result in results:
        step(len(batch.recordings))
        early[batch.number] = result
        while number in early:
            yield early.pop(number)
            number += 1
