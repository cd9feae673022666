"""Finds recordings of equal content while a store is built."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from leakdet.building.build_report import BuildReport
from leakdet.building.sources import LeftOut, SourceRecording
from leakdet.storage.writer import SplitWriter


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
