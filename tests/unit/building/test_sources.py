import os
from pathlib import Path
from typing import Any

import fsspec
import pytest
from tests.conftest import says
from tests.remote_stores import FlakyStore

from leakdet.building.sources import (
    SPLIT_NAMES,
    LeftOut,
    Source,
    SourceRecording,
    from_folders,
    from_manifest,
    from_remote_folders,
    groups_of_name,
    printable,
    relabelled,
    signal_like,
    split_folders,
    with_like,
)
from leakdet.config import BuildConfig, LabelsConfig, SignalConfig
from leakdet.core.errors import InputError, SettingsError
from leakdet.core.locations import RemoteFile
from leakdet.storage.model_card import read_card


def test_the_signal_is_that_of_the_model_its_run_or_the_store(trained) -> None:
    signal = SignalConfig.from_dict(read_card(trained.model)["signal"], "")
    for path in (trained.model, trained.folder, trained.store):
        assert signal_like(path) == signal
        assert with_like(BuildConfig("in", "out", like=str(path))).signal == signal
    assert with_like(BuildConfig("in", "out")).signal == SignalConfig()


def test_another_signal_beside_it_is_refused(trained) -> None:
    other = BuildConfig("in", "out", SignalConfig(n_mels=17), like=str(trained.store))
    with pytest.raises(SettingsError, match=r"n_mels: \d+ / 17.*signal=.* like="):
        with_like(other)


def test_what_tells_no_signal_is_refused(tmp_path: Path, stores) -> None:
    with pytest.raises(InputError, match=r"typo: .*no such"):
        signal_like(tmp_path / "typo")
    with pytest.raises(InputError, match="no model in"):
        signal_like(tmp_path)
    (tmp_path / "last.ckpt").write_text("")
    with pytest.raises(InputError, match=r"takes a \.safetensors file"):
        signal_like(tmp_path / "last.ckpt")
    stores.ailh_splits(tmp_path, {})
    with pytest.raises(InputError, match=r"does not say .*signal"):
        signal_like(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.wav", "b.wav", "sub/a b.wav", "sub/Stra\u00dfe.wav", os.fsdecode(b"d\xe9.wav")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def manifest(folder: Path, text: str, encoding: str = "utf-8-sig") -> Path:
    path = folder / "list.csv"
    path.write_text(text, encoding=encoding)
    return path


def test_columns_make_groups(folder: Path):
    text = (
        "path; label ;split;weight;site\n"
        "sub/a b.wav;LEAK;train;;north\n"
        f"{folder}/a.wav;NOLEAK;VAL;0,1;\n"
    )
    first, second = from_manifest(manifest(folder, text)).recordings
    assert (first.path, first.label, first.split, first.weight) == (
        folder / "sub/a b.wav",
        "LEAK",
        "train",
        1.0,
    )
    assert first.groups == {"site": "north"}
    assert (second.path, second.split, second.weight, second.groups) == (
        folder / "a.wav",
        "val",
        0.1,
        {"site": ""},
    )


@pytest.mark.parametrize(
    ("columns", "row", "reason"),
    [
        ("path,label", "b.wav,", "it has no label"),
        ("path,label", ",LEAK", "the path is empty"),
        ("path,label", "none.wav,LEAK", "no such file"),
        ("path,label", "/none.wav,LEAK", "no such file"),
        ("path,label", "b\0.wav,LEAK", "no such file"),
        ("path,label,split", "b.wav,LEAK,eval", "split 'eval' "),
        ("path,label,weight", "b.wav,LEAK,much", "weight 'much' "),
        ("path,label,weight", "b.wav,LEAK,-1", "weight '-1' "),
        ("path,label", "b.wav,LEAK,extra", "it has 3 fields, not 2"),
        ("path,label,site", "b.wav,LEAK", "it has 2 fields, not 3"),
    ],
)
def test_a_bad_row_stops_none_of_the_others(folder: Path, columns: str, row: str, reason: str):
    good = ",".join(["a.wav", "LEAK", *[""] * (columns.count(",") - 1)])
    source = from_manifest(manifest(folder, f"{columns}\n{row}\n{good}\n"))
    assert [recording.recording_id for recording in source.recordings] == ["a.wav"]
    (item,) = source.left_out
    assert "list.csv, line 2" in item.path
    assert item.reason.startswith(reason)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("path,site", r"columns path and label; it has no label, but path, site"),
        ("path,label,site,site", r"columns \['site'\] .*repeated"),
        ("path,label,,site", r"columns \[''\] are unnamed"),
        ("path,label,a/b", r"columns \['a/b'\] .*slash"),
    ],
)
def test_columns_that_say_too_little_or_too_much(folder: Path, columns: str, message: str):
    with pytest.raises(InputError, match=message):
        from_manifest(manifest(folder, f"{columns}\na.wav,LEAK,x,y\n"))


def test_the_rows_of_predict_are_a_manifest_once_they_are_labelled(folder: Path):
    text = "path,decision,leak_prob,prob_LEAK,label,site\na.wav,leak,0.9,0.9,LEAK,x\nb.wav,leak,1,1,,y\n"
    source = from_manifest(manifest(folder, text))
    assert [(r.recording_id, r.groups) for r in source.recordings] == [("a.wav", {"site": "x"})]
    assert says(source.remarks, r"list\.csv .*no groups.*: decision, leak_prob, prob_LEAK\.$")


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-16", "utf-16-le"])
def test_names_as_other_systems_spell_them(
    folder: Path, encoding: str, monkeypatch: pytest.MonkeyPatch
):
    text = "path,label,Stra\u00dfe\nsub\\Stra\u00dfe.wav,kein Ger\u00e4usch,Z\u00fcrich\n"
    (recording,) = from_manifest(manifest(folder, text, encoding)).recordings
    assert recording.path == folder / "sub/Stra\u00dfe.wav"
    assert recording.label == "kein Ger\u00e4usch"
    assert recording.groups == {"Stra\u00dfe": "Z\u00fcrich"}
    monkeypatch.chdir(folder / "sub")
    text = "path,label\na b.wav,LEAK\nd\u00e9.wav,LEAK\n"
    here, latin = from_manifest(manifest(folder, text)).recordings
    assert here.path == Path("a b.wav")
    assert latin.path == folder / os.fsdecode(b"d\xe9.wav")


def test_a_table_behind_a_url_is_told_by_its_url(flaky: type[FlakyStore]):
    table = RemoteFile("flaky://net/lists/night.csv")
    with pytest.raises(InputError, match=r"^flaky://net/lists/night\.csv: .*no such"):
        from_manifest(table)
    rows = "path,label\n./a.wav,LEAK\n../b.wav,NOLEAK\nflaky://x/c.wav,LEAK\nd.wav,\n"
    fsspec.filesystem("flaky").pipe_file("/net/lists/night.csv", rows.encode())
    source = from_manifest(table)
    assert [(item.recording_id, str(item.path)) for item in source.recordings] == [
        ("a.wav", "flaky://net/lists/a.wav"),
        ("../b.wav", "flaky://net/b.wav"),
        ("flaky://x/c.wav", "flaky://x/c.wav"),
    ]
    (left_out,) = source.left_out
    assert left_out.path == f"{table}, line 5 (d.wav)"
    fsspec.filesystem("flaky").pipe_file("/net/lists/night.csv", b'path,label\n"a.wav,LEAK\n')
    with pytest.raises(InputError, match=r"^flaky://net/lists/night\.csv, line 2: a quote"):
        from_manifest(table)


def test_a_row_may_name_one_channel(folder: Path):
    table = manifest(folder, "path,label,channel\na.wav,LEAK,2\nb.wav,LEAK,\nb.wav,LEAK,left\n")
    source = from_manifest(table, by_channel=True)
    assert [(item.recording_id, item.channel) for item in source.recordings] == [
        ("a.wav", 2),
        ("b.wav", 0),
    ]
    (reason,) = [item.reason for item in source.left_out]
    assert reason.startswith("channel 'left'")
    assert [item.channel for item in from_manifest(table).recordings] == [0, 0, 0]


def touch(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_label_folders(tmp_path: Path):
    touch(
        tmp_path,
        "LEAK/a.WAV",
        "LEAK/deep/er/b.wav",
        "NOLEAK/c.Wav",
        "NOLEAK/d.flac",
        "NOLEAK/notes.txt",
        "stray.wav",
    )
    source = from_folders(tmp_path)
    found = [(r.recording_id, r.label, r.split) for r in source.recordings]
    assert found == [
        ("LEAK/a.WAV", "LEAK", None),
        ("LEAK/deep/er/b.wav", "LEAK", None),
        ("NOLEAK/c.Wav", "NOLEAK", None),
        ("NOLEAK/d.flac", "NOLEAK", None),
    ]
    assert [Path(item.path).name for item in source.left_out] == ["stray.wav"]
    assert says([item.reason for item in source.left_out], "label folder")


def test_split_folders(tmp_path: Path):
    touch(
        tmp_path,
        "train/LEAK/a.wav",
        "Validation/NOLEAK/b.wav",
        "test/LEAK/c.wav",
        "test/stray.wav",
        "test/.hidden/d.wav",
        ".hidden/e.wav",
    )
    source = from_folders(tmp_path)
    assert sorted((r.recording_id, r.label, r.split) for r in source.recordings) == [
        ("Validation/NOLEAK/b.wav", "NOLEAK", "val"),
        ("test/LEAK/c.wav", "LEAK", "test"),
        ("train/LEAK/a.wav", "LEAK", "train"),
    ]
    assert [Path(item.path).name for item in source.left_out] == ["stray.wav"]
    assert says(source.remarks, "^hidden .*: 2$")


def test_ailh_file_names_carry_groups(tmp_path: Path):
    touch(tmp_path, "LEAK/s7~r1~2024-05-01~12.wav", "NOLEAK/plain.wav")
    first, second = from_folders(tmp_path).recordings
    assert first.groups == {
        "sensor": "s7",
        "recording": "r1",
        "timestamp": "2024-05-01",
        "gain_db": "12",
    }
    assert second.groups == {}


def test_strays_beside_split_folders(tmp_path: Path):
    touch(tmp_path, "train/LEAK/a.wav", "test/LEAK/c.wav", "__MACOSX/train/._a.wav", "docs/a.pdf")
    assert {recording.split for recording in from_folders(tmp_path).recordings} == {"train", "test"}
    touch(tmp_path, "new/d.wav")
    with pytest.raises(InputError, match=r"/new: .*sound beside.* train"):
        from_folders(tmp_path)


def test_linked_folders_are_followed_and_circles_end(tmp_path: Path):
    touch(tmp_path, "nas/x.wav", "in/LEAK/a.wav", "in/NOLEAK/b.wav")
    (tmp_path / "in/LEAK/2024").symlink_to(tmp_path / "nas")
    (tmp_path / "in/NOLEAK/up").symlink_to(tmp_path / "in")
    found = [(r.recording_id, r.label) for r in from_folders(tmp_path / "in").recordings]
    assert found[:3] == [
        ("LEAK/2024/x.wav", "LEAK"),
        ("LEAK/a.wav", "LEAK"),
        ("NOLEAK/b.wav", "NOLEAK"),
    ]


def test_links_that_lead_nowhere_are_left_out_by_name(tmp_path: Path):
    touch(tmp_path, "LEAK/a.wav", "NOLEAK/c.wav")
    for name in ("DRIP", "LEAK/day2"):  # a label, and a part of one, on a disk that is away
        (tmp_path / name).symlink_to("/nonexistent/disk")
    left_out = from_folders(tmp_path).left_out
    assert [item.path for item in left_out] == [f"{tmp_path}/DRIP", f"{tmp_path}/LEAK/day2"]
    assert all("cannot be followed" in item.reason for item in left_out)


def test_kinds_that_cannot_be_read_are_left_out_by_count(tmp_path: Path):
    touch(tmp_path, "LEAK/a.wav", "LEAK/b.m4a", "NOLEAK/c.m4a", "NOLEAK/notes.txt")
    (item,) = from_folders(tmp_path).left_out
    assert item.path == f"{tmp_path}/**/*.m4a"
    assert item.reason.startswith("2 files of kinds ")


def test_names_that_are_not_text_are_kept(tmp_path: Path):
    touch(tmp_path, "LEAK/" + os.fsdecode(b"caf\xe9.wav"))
    (recording,) = from_folders(tmp_path).recordings
    assert recording.path.exists()
    assert recording.recording_id.encode("utf-8").decode() == "LEAK/caf\\xe9.wav"


ROOT = RemoteFile("flaky://net/audio")
TREES = {
    "labels": (
        "LEAK/a.WAV", "LEAK/deep/er/b.wav", "LEAK/b-1.wav", "NOLEAK/S1~r~2020~3.flac",
        "NOLEAK/film.mp4", "NOLEAK/notes.txt", "stray.wav",
    ),
    "splits": (
        "train/LEAK/a.wav", "Validation/NOLEAK/b.wav", "test/LEAK/c.wav", "test/stray.wav",
        "train/LEAK b/a.wav",
    ),
    "splits alone": ("train/a/1.wav", "val/a/2.wav"),
    "label named as a split": ("test/a.wav", "leak/b.wav"),
}  # fmt: skip


def plain(source: Source, root: object) -> Any:
    return (
        [(r.recording_id, r.label, r.split, r.groups, r.path.name) for r in source.recordings],
        sorted((item.path.replace(str(root), ""), item.reason) for item in source.left_out),
        source.remarks,
    )


def put(*names: str) -> None:
    for name in names:
        fsspec.filesystem("flaky").pipe_file(f"/net/audio/{name}", b"")


@pytest.mark.parametrize("tree", TREES)
def test_recordings_are_those_of_the_same_local_folders(
    tree: str, flaky: type[FlakyStore], tmp_path: Path
) -> None:
    for name in TREES[tree]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    put(*TREES[tree])
    remote = from_remote_folders(ROOT)
    assert plain(remote, ROOT) == plain(from_folders(tmp_path), tmp_path)
    assert all(isinstance(recording.path, RemoteFile) for recording in remote.recordings)


def test_sound_beside_split_folders_is_refused(flaky: type[FlakyStore]) -> None:
    put("train/LEAK/a.wav", "test/LEAK/b.wav", "old/c.wav")
    with pytest.raises(InputError, match=r"flaky://net/audio/old: .*sound beside"):
        from_remote_folders(ROOT)


def test_groups_in_file_names():
    assert groups_of_name(Path("a/s7~r1~2024-05-01~12.wav")) == {
        "sensor": "s7",
        "recording": "r1",
        "timestamp": "2024-05-01",
        "gain_db": "12",
    }
    assert groups_of_name(Path("a~b.wav")) == {}


@pytest.mark.parametrize(
    ("names", "splits", "beside"),
    [
        (["test", "old", "Training", "VALID", "docs"], "Training VALID test", ["docs", "old"]),
        (["val", "train"], "train val", []),  # nothing that could be a label
        (["train", "val", "leak"], "", []),  # labels, two of them named as splits are
        (["test"], "test", []),
        ([], "", []),
    ],
)
def test_folders_are_splits_where_nothing_else_makes_sense(
    names: list[str], splits: str, beside: list[str]
):
    known, others = split_folders(names)
    assert list(known) == splits.split()
    assert all(split == SPLIT_NAMES[name.casefold()] for name, split in known.items())
    assert others == beside


def test_names_are_stored_in_one_form():
    assert printable("Stra\u0308\u00dfe") == printable("Str\u00e4\u00dfe") == "Str\u00e4\u00dfe"
    assert printable(os.fsdecode(b"caf\xe9")) == "caf\\xe9"


def source(*labels: str) -> Source:
    recordings = [
        SourceRecording(f"{n}.wav", Path(f"{n}.wav"), label) for n, label in enumerate(labels)
    ]
    return Source(recordings, [LeftOut("x.wav", "stray")])


def test_the_most_frequent_spelling_is_kept() -> None:
    found, view = relabelled(source("LEAK", "ok", "Leak", "Leak", "OK"), LabelsConfig(), "x")
    assert [recording.label for recording in found.recordings] == [
        "Leak",
        "OK",
        "Leak",
        "Leak",
        "OK",
    ]
    assert (view.names, view.leaks) == (("Leak", "OK"), ("Leak",))
    assert found.left_out == [LeftOut("x.wav", "stray")]


def test_recordings_are_left_out_and_counted() -> None:
    settings = LabelsConfig(ignore="?", rename={"rauschen": "ok"}, leak=["drip", "leak"])
    found, view = relabelled(source("leak", "Rauschen", "?", "drip", "?"), settings, "x")
    assert [recording.label for recording in found.recordings] == ["leak", "ok", "drip"]
    assert view.sentence() == "leak: drip, leak; no leak: ok; left out: ? (2 recordings)"


def test_a_file_with_two_labels_is_left_out_and_one_with_two_spellings_is_not() -> None:
    twice = [SourceRecording("a.wav", Path("a.wav"), label) for label in ("leak", "Leak", "ok")]
    alike, _ = relabelled(Source([*twice[:2], *source("ok").recordings], []), LabelsConfig(), "x")
    assert len(alike.recordings) == 3
    rest, _ = relabelled(Source([*twice, *source("ok").recordings], []), LabelsConfig(), "x")
    assert [recording.recording_id for recording in rest.recordings] == ["0.wav"]
    assert says({item.reason for item in rest.left_out}, "labels Leak and ok")


def test_channels_may_have_labels_of_their_own_but_not_beside_the_whole_file() -> None:
    rows = (("a", "leak", 1), ("a", "ok", 2), ("b", "leak", 0), ("b", "leak", 2))
    listed = [SourceRecording(name, Path(name), label, channel=n) for name, label, n in rows]
    kept, _ = relabelled(Source(listed, []), LabelsConfig(), "x")
    assert [(item.channel, item.label) for item in kept.recordings] == [(1, "leak"), (2, "ok")]
    assert says({item.reason for item in kept.left_out}, "whole and by channel")
