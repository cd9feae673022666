from pathlib import Path

from leakdet.building.build_report import BuildReport
from leakdet.building.duplicates import DuplicateFilter
from leakdet.building.sources import SourceRecording
from leakdet.config import SignalConfig
from leakdet.storage.writer import SplitWriter


class Writer(SplitWriter):
    """Records what is removed."""

    def __init__(self) -> None:
        self.removed: list[str] = []

    def remove(self, recording_id: str) -> None:
        self.removed.append(recording_id)


def recording(name: str, label: str) -> SourceRecording:
    return SourceRecording(name, Path(name), label)


def admitted(*given: tuple[str, str, str]) -> tuple[list[str], dict[str, str], list[str]]:
    """Names admitted, reasons by name, and names removed, of (name, label, content)."""
    writer, report = Writer(), BuildReport(Path("out"), SignalConfig())
    duplicates = DuplicateFilter({"train": writer}, report)
    names = [
        name
        for name, label, content in given
        if duplicates.admit(recording(name, label), content, "train")
    ]
    return names, {item.path: item.reason for item in report.left_out}, writer.removed


def test_the_first_of_equal_recordings_is_kept():
    names, reasons, removed = admitted(("a", "leak", "1"), ("b", "leak", "1"), ("c", "no", "2"))
    assert names == ["a", "c"]
    assert reasons == {"b": "the same sound as a"}
    assert removed == []


def test_contradicting_labels_remove_all_copies():
    names, reasons, removed = admitted(
        ("a", "leak", "1"), ("b", "no", "1"), ("c", "leak", "1"), ("d", "no", "1")
    )
    assert names == ["a"]
    assert removed == ["a"]
    assert reasons == {
        "a": "the same sound as b (no), but labelled leak",
        "b": "the same sound as a (leak), but labelled no",
        "c": "the same sound as a, which occurs with two labels",
        "d": "the same sound as a (leak), but labelled no",
    }
