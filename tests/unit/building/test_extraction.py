from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from tests.conftest import says

from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.windows import MelStream
from leakdet.building.extraction import (
    DuplicateFilter,
    ExtractedRecording,
    Extractor,
)
from leakdet.building.report import BuildReport
from leakdet.building.sources import LeftOut, SourceRecording
from leakdet.config import SignalConfig
from leakdet.storage.writer import SplitWriter


@pytest.fixture
def extract(signal: SignalConfig) -> Iterator[Callable[..., Any]]:
    """`extract(folder, recording, waveform="none")`; what it returns is closed at the end."""
    with ExitStack() as stack:

        def one(folder: Path, recording: SourceRecording, waveform: str = "none") -> Any:
            run = Extractor(LogMel(signal), waveform, folder, folder.parent / "store")
            result = run(recording)
            if isinstance(result, ExtractedRecording):
                stack.callback(result.close)
            return result

        yield one


def read(spool) -> bytes:
    spool.seek(0)
    return spool.read()


def test_mel_and_facts_are_those_of_the_audio(tmp_path: Path, signal, recording_of, extract):
    recording = recording_of("a.wav", 1.3, groups={"site": "x"}, weight=0.5)
    (tmp_path / "elsewhere").mkdir()
    result = extract(tmp_path / "elsewhere", recording)
    stream = MelStream(recording.path, LogMel(signal))
    mel = torch.cat([block.mel for block in stream]).numpy()
    assert isinstance(result, ExtractedRecording)
    assert read(result.mel) == mel.tobytes()
    assert result.row.windows == len(mel)
    assert (result.row.duration_s, result.row.content_sha256) == (
        stream.facts.duration_s,
        stream.facts.content_sha256,
    )
    assert (result.row.groups, result.row.weight) == ({"site": "x"}, 0.5)
    assert result.row.path == str(recording.path)
    assert result.sound is None
    result.close()
    assert result.mel.closed


@pytest.mark.parametrize(("waveform", "dtype"), [("float32", np.float32), ("int16", "<i2")])
@pytest.mark.parametrize("seconds", [0.05, 1.0, 1.35, 9.7])
def test_overlapping_windows_store_their_sound_once(
    tmp_path: Path, signal, recording_of, extract, waveform: str, dtype, seconds: float
):
    recording = recording_of("a.wav", seconds)
    result = extract(tmp_path, recording, waveform)
    original = soundfile.read(recording.path, dtype="float32")[0]
    sound = np.frombuffer(read(result.sound), dtype).astype(np.float32)
    sound = sound / 32768 if waveform == "int16" else sound
    assert len(original) - len(sound) in range(signal.window_samples // 2 + 1)
    np.testing.assert_allclose(sound, original[: len(sound)], atol=2**-16)


def test_what_cannot_be_decoded_is_left_out_and_leaves_no_file(tmp_path: Path, extract):
    (tmp_path / "text.wav").write_text("no sound")
    recording = SourceRecording("text.wav", tmp_path / "text.wav", "LEAK")
    result = extract(tmp_path, recording, "int16")
    assert isinstance(result, LeftOut)
    assert result.reason.startswith("not readable as audio")
    assert [path.name for path in tmp_path.iterdir()] == ["text.wav"]


def test_audio_inside_the_new_store_is_named_by_its_final_place(
    tmp_path: Path, recording_of, extract
):
    recording = recording_of("building/audio/a.wav")
    result = extract(tmp_path / "building", recording)
    assert result.row.path == str(tmp_path / "store" / "audio" / "a.wav")


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
    assert reasons.keys() == {"b"}
    assert says(reasons.values(), "same sound as a$")
    assert removed == []


def test_contradicting_labels_remove_all_copies():
    names, reasons, removed = admitted(
        ("a", "leak", "1"), ("b", "no", "1"), ("c", "leak", "1"), ("d", "no", "1")
    )
    assert names == ["a"]
    assert removed == ["a"]
    facts = {
        "a": r"same sound as b \(no\), .* leak$",
        "b": r"same sound as a \(leak\), .* no$",
        "c": "same sound as a, .*two labels",
        "d": r"same sound as a \(leak\), .* no$",
    }
    assert reasons.keys() == facts.keys()
    assert says(reasons.values(), *(facts[name] for name in reasons))
