import csv
import json
import pickle  # noqa: TID251 - as Dask sends work to its workers
import shutil
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import soundfile
import torch

from leakdet.acoustics.mel import LogMel
from leakdet.acoustics.windows import MelStream
from leakdet.building import extraction
from leakdet.building.builder import build_store
from leakdet.building.extraction import (
    DuplicateFilter,
    ExtractedRecording,
    ExtractionEngine,
    Extractor,
    batches,
    mel_stream,
)
from leakdet.building.report import BuildReport
from leakdet.building.sources import LeftOut, SourceRecording
from leakdet.config import BuildConfig, SignalConfig, SplitConfig
from leakdet.core.errors import InputError
from leakdet.core.parallel import Engine
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


def test_a_surrogate_has_another_mel_and_another_hash_but_the_same_facts(
    tmp_path: Path, signal, recording_of, extract
):
    recording = recording_of("a.wav")
    surrogate = recording_of("a.wav", surrogate_of="a.wav")
    first, second = (extract(tmp_path, each) for each in (recording, surrogate))
    assert read(first.mel) != read(second.mel)
    assert first.row.content_sha256 != second.row.content_sha256
    assert (second.row.flags, second.row.surrogate_of) == (["surrogate"], "a.wav")
    assert first.row.rms_dbfs == second.row.rms_dbfs
    again = torch.cat([b.mel for b in mel_stream(recording.path, LogMel(signal), "a.wav")])
    assert again.numpy().tobytes() == read(second.mel)


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


class Backwards(Engine):
    """Stands for a cluster: does everything here, pickled, and returns the last batch first."""

    def __init__(self) -> None:
        super().__init__(client=None, address="")

    def unordered(
        self, work: Any, items: Iterable[Any], in_flight: int = 4
    ) -> Generator[tuple[Any, Any], None, None]:
        for item in reversed(list(items)):
            yield item, pickle.loads(pickle.dumps(work))(pickle.loads(pickle.dumps(item)))


def told(extracted: ExtractedRecording | LeftOut) -> Any:
    """All that comes of a recording."""
    if isinstance(extracted, LeftOut):
        return extracted
    files = [file for file in (extracted.mel, extracted.sound) if file is not None]
    contents = []
    for file in files:
        file.seek(0)
        contents.append(file.read(1 << 30))
        file.seek(0)
        assert file.read(3) + file.read(1 << 30) == contents[-1]
    extracted.close()
    row = vars(extracted.row)
    return contents, {name: str(value) for name, value in row.items()}


def lengths(recordings: Iterable[SourceRecording]) -> dict[Path, float]:
    return dict.fromkeys((recording.path for recording in recordings), 200.0)


@pytest.mark.parametrize("waveform", ["none", "int16"])
def test_workers_return_what_threads_do(
    recording_of, tmp_path: Path, signal, waveform: str
) -> None:
    (tmp_path / "torn.wav").write_bytes(b"RIFF")
    recordings = [recording_of(f"{n}.wav", 0.5 + n / 5) for n in range(7)]
    recordings.insert(4, SourceRecording("torn.wav", tmp_path / "torn.wav", "LEAK"))
    recordings.append(SourceRecording("gone.wav", tmp_path / "gone.wav", "LEAK"))
    recordings.append(replace(recordings[0], recording_id="0#surrogate1", surrogate_of="0.wav"))
    folder = tmp_path / "building"
    folder.mkdir()
    given = (Extractor(LogMel(signal), waveform, folder, tmp_path), lengths(recordings), recordings)
    steps = list[int]()
    by_threads = list(map(told, ExtractionEngine(1)(*given, steps.append)))
    assert steps == [1] * 10
    by_workers = list(map(told, ExtractionEngine(1, Backwards())(*given, steps.append)))
    assert steps[10:] == [1, 3, 3, 3]  # 600 s at a time
    assert by_workers == by_threads
    assert [type(each) is LeftOut for each in by_threads] == [n in (4, 8) for n in range(10)]
    assert list(folder.iterdir()) == []


def test_batches_are_of_about_equal_work() -> None:
    recordings = [SourceRecording(f"{n}", Path(f"{n}"), "leak") for n in range(200)]
    short = list(batches(recordings, dict.fromkeys((r.path for r in recordings), 1.0)))
    assert [len(batch.recordings) for batch in short] == [64, 64, 64, 8]
    assert [str(batch) for batch in short][0::3] == [
        "one of 0 to 63 (64)",
        "one of 192 to 199 (8)",
    ]
    assert [batch.number for batch in short] == [0, 1, 2, 3]
    long = list(batches(recordings[:3], {Path("0"): 500.0, Path("1"): 100.0, Path("2"): 1e5}))
    assert [str(batch) for batch in long] == ["one of 0 to 1 (2)", "2"]
    surrogates = [replace(recording, surrogate_of="0") for recording in recordings[:4]]
    assert len(list(batches(surrogates, {Path(f"{n}"): 3.0 for n in range(4)}))) == 2
    assert list(batches([], {})) == []


def test_a_worker_that_does_not_see_the_folder_or_a_recording_is_named(
    recording_of, tmp_path: Path, signal, monkeypatch: pytest.MonkeyPatch
) -> None:
    recordings = [recording_of("a.wav")]
    given = (Extractor(LogMel(signal), "none", tmp_path, tmp_path), lengths(recordings), recordings)

    class Elsewhere(Backwards):
        """A machine where the recordings are not."""

        def unordered(
            self, work: Any, items: Iterable[Any], in_flight: int = 4
        ) -> Generator[tuple[Any, Any], None, None]:
            recordings[0].path.rename(tmp_path / "b.wav")
            results = list(super().unordered(work, items))
            (tmp_path / "b.wav").rename(recordings[0].path)
            yield from results

    with pytest.raises(InputError, match=r"the worker on .* does not see .*a\.wav\. Recordings"):
        list(ExtractionEngine(1, Elsewhere())(*given, print))
    monkeypatch.setattr(extraction, "mkdtemp", lambda **_: str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match=r"does not see .*, where the store is built"):
        list(ExtractionEngine(1, Backwards())(*given, print))


def content(store: Path) -> dict[str, Any]:
    """Everything of a store but the moment, the place and the engine of its build."""
    build = json.loads((store / "build.json").read_text())
    for name in ("created_at", "settings"):
        del build[name]
    with (store / "recordings.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns: dict[str, str | bytes] = {}

    def add(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            values = item[:]
            columns[name] = str(values.tolist()) if values.dtype == object else values.tobytes()

    for path in sorted(store.glob("*.h5")):
        with h5py.File(path) as split:
            split.visititems(lambda name, item, file=path.name: add(f"{file}/{name}", item))
    return {"build": build, "rows": rows, "columns": columns}


def test_a_build_by_a_cluster_equals_one_without(
    thirty_recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(extraction, "BATCH_RECORDINGS", 5)
    source = tmp_path / "audio"
    shutil.copytree(thirty_recordings, source)
    leaks, others = sorted(source.glob("LEAK/*")), sorted(source.glob("NORMAL/*"))
    shutil.copy(leaks[0], others[0].with_name("zz.wav"))  # one sound, two labels
    for number in (1, 2):
        shutil.copy(leaks[-1], leaks[0].with_name(f"0{number}copy.wav"))
    (source / "LEAK" / "torn.wav").write_bytes(leaks[3].read_bytes()[:60])
    settings: dict[str, Any] = {
        "source": str(source),
        "split": SplitConfig(ratios=[0.5, 0.25, 0.25]),
        "waveform": "int16",
    }
    here = build_store(BuildConfig(out=str(tmp_path / "here"), **settings))
    there = build_store(BuildConfig(out=str(tmp_path / "there"), cluster="local:1", **settings))
    assert content(tmp_path / "there") == content(tmp_path / "here")
    assert there.left_out == here.left_out
    reasons = " ".join(item.reason for item in there.left_out)
    assert "the same sound as" in reasons
    assert "but labelled" in reasons
    assert sorted(path.name for path in tmp_path.iterdir()) == ["audio", "here", "there"]
