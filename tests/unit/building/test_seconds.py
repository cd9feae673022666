"""Tables that label seconds of files: what they list, what is refused, and what comes of it."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import noise, says

from leakdet.building.addition import add_to_store
from leakdet.building.builder import build_store
from leakdet.building.cached_stores import joined_stores
from leakdet.building.sources import Source, from_folders, from_manifest, relabelled
from leakdet.config import BuildConfig, LabelsConfig, SignalConfig, SplitConfig
from leakdet.core.errors import InputError
from leakdet.core.locations import SOURCE_FILE, Span
from leakdet.storage.opening import open_split
from leakdet.tables.read import read_csv

SIGNAL = SignalConfig(2000, 400, 40, 100, 10, n_mels=8, fmin_hz=0.0, fmax_hz=1000.0)
RATE_HZ, SECONDS = 4000, 3.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve files of three seconds, of which every other one has a leak."""
    root = tmp_path_factory.mktemp("seconds")
    for number in range(12):
        soundfile.write(root / f"{number}.wav", noise(SECONDS, RATE_HZ, number), RATE_HZ)
    return root


def listed(folder: Path, text: str, name: str = "list.csv") -> Source:
    (folder / name).write_text(text, encoding="utf-8")
    return from_manifest(folder / name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plain.csv", "path,start,end,label\n0.wav,0.5,1.25,leak\n"),
        ("opensoundscape.csv", "file,annotation,start_time,end_time\n0.wav,leak,0.5,1.25\n"),
        ("birdnet.csv", "Start (s),End (s),Common name,File\n0.5,1.25,leak,0.wav\n"),
        (
            "raven.txt",
            "Selection\tBegin Time (s)\tEnd Time (s)\tBegin Path\tFile Offset (s)\tAnnotation\n"
            "1\t100.5\t101.25\t0.wav\t0.5\tleak\n",
        ),
        ("0.txt", "0.500000\t1.250000\tleak\n\\\t100.0\t200.0\n"),
        ("0.labels.txt", "0.5\t1.25\tleak\n"),
        ("0.Table.1.selections.txt", "Begin Time (s)\tEnd Time (s)\tlabel\n0.5\t1.25\tleak\n"),
        ("comma.csv", "path;onset;offset;label\n0.wav;0,5;1,25;leak\n"),
    ],
)
def test_tables_of_other_programs_are_read(folder: Path, name: str, text: str) -> None:
    source = listed(folder, text, name)
    (folder / name).unlink()
    (recording,) = source.recordings
    assert (recording.recording_id, recording.label) == ("0.wav#0.5-1.25s", "leak")
    assert (recording.path, recording.span) == (folder / "0.wav", Span(0.5, 1.25))
    assert recording.groups[SOURCE_FILE] == str(folder / "0.wav")
    assert source.left_out == []
    assert says(source.remarks, r"are seconds of a recording")


def test_a_folder_of_sounds_with_tables_beside_them(tmp_path: Path) -> None:
    for name in ("train/a", "train/b", "test/a"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        soundfile.write(tmp_path / f"{name}.wav", noise(1.0), 16000)
    (tmp_path / "train/a.txt").write_text("0\t0.5\tleak\n0.5\t1\tquiet\n")
    (tmp_path / "train/b.txt").write_text("what I heard\n")
    (tmp_path / "test/a.labels.txt").write_text("0\t0.5\tleak\n")
    source = from_folders(tmp_path)
    assert [(r.recording_id, r.label, r.split) for r in source.recordings] == [
        ("test/a.wav#0-0.5s", "leak", "test"),
        ("train/a.wav#0-0.5s", "leak", "train"),
        ("train/a.wav#0.5-1s", "quiet", "train"),
    ]
    assert says((f"{item.path}: {item.reason}" for item in source.left_out), r"b\.wav: not in a")


def test_faulty_seconds_are_left_out_with_their_lines(folder: Path) -> None:
    source = listed(
        folder,
        "path,start,end,label\n0.wav,2,1,leak\n0.wav,x,1,leak\n0.wav,-1,1,leak\n0.wav,1,,leak\n"
        "1.wav,0,2,leak\n1.wav,1,3,quiet\n1.wav,2.5,3,quiet\n2.wav,0,1,leak\n2.wav,,,leak\n",
    )
    kept, _ = relabelled(source, LabelsConfig(), "list.csv")
    assert [recording.recording_id for recording in kept.recordings] == ["1.wav#2.5-3s"]
    assert says(
        (f"{item.path}: {item.reason}" for item in kept.left_out),
        r"line 2 .*its end at 1 s",
        r"line 3 .*start 'x'",
        r"line 4 .*start '-1'",
        r"line 5 .*end ''",
        r"line 6 \(1\.wav#0-2s\): listed with the labels leak and quiet",
        r"line 7 .*listed with the labels leak and quiet",
        r"line 9 .*both whole and by seconds",
        r"2\.wav: listed both whole and by seconds",
    )


def config(source: Path, out: Path, **changes: object) -> BuildConfig:
    fixed: dict[str, object] = {"signal": SIGNAL, "split": SplitConfig(ratios=[0.5, 0.25, 0.25])}
    return BuildConfig(str(source), str(out), **{**fixed, "verify": "full", **changes})  # type: ignore[arg-type]


def test_seconds_of_a_file_stay_in_one_split(folder: Path, tmp_path: Path) -> None:
    rows = [
        f"{folder}/{n}.wav,{start},{start + 0.5},{('leak', 'quiet')[n % 2]}"
        for n in range(12)
        for start in (0, 1, 2.5)
    ]
    rows += [f"{folder}/0.wav,2.5,3.5,leak", f"{folder}/0.wav,1,1.5,leak"]
    table = tmp_path / "list.csv"
    table.write_text("\n".join(["path,start,end,label", *rows]))
    report = build_store(config(table, tmp_path / "store"))
    assert says(
        (f"{item.path}: {item.reason}" for item in report.left_out),
        r"line 38 .*its sound ends at 3 s, before the end of 2\.5-3\.5s",
        r"line 39 .*listed twice",
    )
    splits: dict[str, set[str]] = {}
    for row in read_csv(tmp_path / "store/recordings.csv", "rows"):
        splits.setdefault(row["path"], set()).add(row["split"])
        assert float(row["duration_s"]) == float(row["end_s"]) - float(row["start_s"]) == 0.5
    assert [len(names) for names in splits.values()] == [1] * 12
    assert says(report.remarks[-2:], r"36 spans of 12 files; .*source_file", "Verified")


def test_new_seconds_join_the_split_of_their_file(folder: Path, tmp_path: Path) -> None:
    labels = [("leak", "quiet")[n % 2] for n in range(12)]
    split = ["train"] * 6 + ["val"] * 3 + ["test"] * 3
    whole, parts = tmp_path / "whole.csv", tmp_path / "parts.csv"
    rows = [f"{folder}/{n}.wav,{labels[n]},{split[n]}" for n in range(12)]
    whole.write_text("\n".join(["path,label,split", *rows]))
    parts.write_text(f"path,start,end,label\n{folder}/0.wav,1,2,leak\n{folder}/11.wav,1,2,quiet\n")
    store = tmp_path / "store"
    build_store(config(whole, store))
    report = add_to_store(BuildConfig(str(parts), "", add_to=str(store), verify="full"))
    assert says(
        (f"{item.path}: {item.reason}" for item in report.left_out), r"its file lies in test"
    )
    spans = open_split(store, "train").spans()
    assert spans == [None] * 6 + [Span(1.0, 2.0)]


def test_two_stores_with_seconds_of_one_file_in_two_splits_are_no_store(
    folder: Path, tmp_path: Path
) -> None:
    stores = []
    for start, split in ((0, ("train", "test")), (1, ("test", "train"))):
        rows = [
            f"{folder}/{n}.wav,{start},{start + 1},{('leak', 'quiet')[n % 2]},{split[n // 2]}"
            for n in range(4)
        ]
        table = tmp_path / f"{start}.csv"
        table.write_text("\n".join(["path,start,end,label,split", *rows]))
        stores.append(tmp_path / f"store{start}")
        build_store(config(table, stores[-1]))
    with pytest.raises(
        InputError, match=r"cannot be trained on.*the file .*/0\.wav.* lies in train.*test"
    ):
        joined_stores(stores, tmp_path)


@settings(max_examples=6, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9000), st.integers(200, 3000)), min_size=4, max_size=4))
def test_a_store_of_seconds_is_that_of_the_files_cut_by_another_program(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, cuts: list[tuple[int, int]]
) -> None:
    root = tmp_path_factory.mktemp("cut")
    spans, files = ["path,start,end,label,split"], ["path,label,split"]
    for number, (start, length) in enumerate(cuts):
        samples, _ = soundfile.read(folder / f"{number}.wav", dtype="int16")
        soundfile.write(root / f"{number}.wav", samples[start : start + length], RATE_HZ)
        told = f"{('leak', 'quiet')[number % 2]},{('train', 'test')[number // 2]}"
        seconds = f"{start / RATE_HZ},{(start + length) / RATE_HZ}"
        spans.append(f"{folder}/{number}.wav,{seconds},{told}")
        files.append(f"{root}/{number}.wav,{told}")
    stores = []
    for name, lines in (("spans", spans), ("files", files)):
        (root / f"{name}.csv").write_text("\n".join(lines))
        build_store(config(root / f"{name}.csv", root / name))
        stores.append([open_split(root / name, split) for split in ("train", "test")])
    for ours, cut in zip(*stores, strict=True):
        assert ours.recording_offsets.tolist() == cut.recording_offsets.tolist()
        windows = int(cut.recording_offsets[-1])
        np.testing.assert_array_equal(ours.read(0, windows), cut.read(0, windows))
        for column in ("content_sha256", "flags"):
            assert ours.texts(column).tolist() == cut.texts(column).tolist()
        for column in ("duration_s", "rms_dbfs", "source_rate_hz"):
            assert ours.numbers(column, 0.0).tolist() == cut.numbers(column, 0.0).tolist()
