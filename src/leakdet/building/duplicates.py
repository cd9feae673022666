"""Finds recordings of equal content while a store is built."""

from dataclasses import dataclass, field

from leakdet.building.build_report import BuildReport
from leakdet.building.sources import LeftOut, SourceRecording
from leakdet.storage.writer import SplitWriter


@dataclass
class DuplicateFilter:
    """Keeps the first of equal recordings, and none of them if their labels differ."""

    writers: dict[str, SplitWriter]
    report: BuildReport
    _first: dict[str, tuple[str, SourceRecording]] = field(default_factory=dict)
    _contradictory: set[str] = field(default_factory=set)

    def admit(self, recording: SourceRecording, content: str, split: str) -> bool:
        """Decide whether to write this recording, of hash `content`; report the reason if not.

        If two labels contradict each other, the first recording is removed from its writer.
        """
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

    def _leave_out(self, recording: SourceRecording, reason: str) -> None:
        self.report.left_out.append(LeftOut(recording.recording_id, reason))


def _contradiction(recording: SourceRecording, other: SourceRecording) -> str:
    if recording.label == other.label:
        return f"the same sound as {other.recording_id}, which occurs with two labels"
    return f"the same sound as {other.recording_id} ({other.label}), but labelled {recording.label}"
