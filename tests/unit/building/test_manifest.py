"""Recordings of a table."""

import os
from pathlib import Path

import fsspec
import pytest
from tests.remote_stores import FlakyStore

from leakdet._remote import RemoteFile
from leakdet.building.manifest import from_manifest
from leakdet.errors import InputError


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
        ("path,label", "none.wav,LEAK", "no such file, neither beside the manifest nor in "),
        ("path,label", "/none.wav,LEAK", "no such file"),
        ("path,label", "b\0.wav,LEAK", "no such file"),
        ("path,label,split", "b.wav,LEAK,eval", "split 'eval' is not one of train, val, test"),
        ("path,label,weight", "b.wav,LEAK,much", "weight 'much' is not a number"),
        ("path,label,weight", "b.wav,LEAK,-1", "weight '-1' is not a number"),
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
        ("path,site", r"needs the columns path and label; \['label'\] missing"),
        ("path,label,site,site", r"columns \['site'\] are unnamed, repeated"),
        ("path,label,,site", r"columns \[''\] are unnamed"),
        ("path,label,a/b", r"columns \['a/b'\] are unnamed, repeated or hold a slash"),
    ],
)
def test_columns_that_say_too_little_or_too_much(folder: Path, columns: str, message: str):
    with pytest.raises(InputError, match=message):
        from_manifest(manifest(folder, f"{columns}\na.wav,LEAK,x,y\n"))


def test_the_rows_of_predict_are_a_manifest_once_they_are_labelled(folder: Path):
    text = "path,decision,leak_prob,prob_LEAK,label,site\na.wav,leak,0.9,0.9,LEAK,x\nb.wav,leak,1,1,,y\n"
    source = from_manifest(manifest(folder, text))
    assert [(r.recording_id, r.groups) for r in source.recordings] == [("a.wav", {"site": "x"})]
    assert source.remarks == [
        "Columns of list.csv that make no groups, since leakdet writes such itself: decision, "
        "leak_prob, prob_LEAK."
    ]


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
    with pytest.raises(InputError, match=r"^flaky://net/lists/night\.csv: there is no such file"):
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
    assert [item.reason for item in source.left_out] == ["channel 'left' is not a number from 1 on"]
    assert [item.channel for item in from_manifest(table).recordings] == [0, 0, 0]
