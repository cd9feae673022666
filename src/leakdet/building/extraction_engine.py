"""Extracts many recordings, in order: by threads here, or by the workers of a cluster.

A worker writes mel and sound of a batch into a file each, in the folder of the build, which it must
see, and returns the rows. So neither it nor this process holds a batch in memory.
"""

import shutil
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import IO
from uuid import uuid4

from leakdet._cluster import cluster
from leakdet._cluster_engine import Engine
from leakdet._parallel import in_order
from leakdet._remote import RemoteFile
from leakdet.acoustics.mel import LogMel
from leakdet.building.extraction import ExtractedRecording, Extractor
from leakdet.building.sources import LeftOut, SourceRecording
from leakdet.config import BuildConfig, SignalConfig
from leakdet.errors import InputError
from leakdet.storage.writer import BinaryFile, RecordingRow

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
        about_s: Mapping[Path | RemoteFile, float],
        recordings: Sequence[SourceRecording],
        step: Callable[[int], None],
    ) -> Iterator[ExtractedRecording | LeftOut]:
        """Extract each recording, in their order; `about_s` are the lengths of files.

        `step` hears how many more are done, which may be before their turn.

        Raises:
            InputError: a worker does not see the folder of the build, or a recording.
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
    recordings: Iterable[SourceRecording], about_s: Mapping[Path | RemoteFile, float]
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
