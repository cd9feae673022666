"""Decodes recordings and computes their log-mel, ready for a store; finds equal content."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, Protocol, cast

import numpy as np
from jaxtyping import Bool

from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.windows import MelStream
from leakdet.building.report import BuildReport
from leakdet.building.sources import LeftOut, SourceRecording, printable
from leakdet.core.errors import InputError
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
        stream = MelStream(recording.sound, self.log_mel, recording.channel, with_hum=True)
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
            return LeftOut(recording.place, str(error))
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
        return RecordingRow(
            recording_id=recording.recording_id,
            path=printable(str(path)),
            label=recording.label,
            groups=recording.groups,
            weight=recording.weight,
            content_sha256=facts.content_sha256,
            duration_s=facts.duration_s,
            source_rate_hz=facts.source_rate_hz,
            rms_dbfs=facts.rms_dbfs,
            dc_offset=facts.dc_offset,
            clipped_fraction=facts.clipped_fraction,
            flags=[*facts.flags],
            windows=len(live),
            mel_crc32=0,
            mains_hum_50_db=facts.mains_hum_db[0],
            mains_hum_60_db=facts.mains_hum_db[1],
            channel=recording.channel,
            live=live,
            **(recording.span._asdict() if recording.span else {}),
        )


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
