import os
from pathlib import Path

import pytest

from leakdet.building.sources import read_source
from leakdet.errors import InputError


def touch(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def manifest(folder: Path, text: str) -> Path:
    path = folder / "list.csv"
    path.write_text(text, encoding="utf-8-sig")
    return path


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
    source = read_source(tmp_path)
    found = [(r.recording_id, r.label, r.split) for r in source.recordings]
    assert found == [
        ("LEAK/a.WAV", "LEAK", None),
        ("LEAK/deep/er/b.wav", "LEAK", None),
        ("NOLEAK/c.Wav", "NOLEAK", None),
        ("NOLEAK/d.flac", "NOLEAK", None),
    ]
    assert [(Path(item.path).name, item.reason) for item in source.left_out] == [
        ("stray.wav", "not in a label folder")
    ]


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
    source = read_source(tmp_path)
    assert sorted((r.recording_id, r.label, r.split) for r in source.recordings) == [
        ("Validation/NOLEAK/b.wav", "NOLEAK", "val"),
        ("test/LEAK/c.wav", "LEAK", "test"),
        ("train/LEAK/a.wav", "LEAK", "train"),
    ]
    assert len(source.left_out) == 1


def test_ailh_file_names_carry_groups(tmp_path: Path):
    touch(tmp_path, "LEAK/s7~r1~2024-05-01~12.wav", "NOLEAK/plain.wav")
    first, second = read_source(tmp_path).recordings
    assert first.groups == {
        "sensor": "s7",
        "recording": "r1",
        "timestamp": "2024-05-01",
        "gain_db": "12",
    }
    assert second.groups == {}


def test_manifest(tmp_path: Path):
    text = (
        "path; label ;split;weight;site\n"
        "sub/a b.wav;LEAK;train;;north\n"
        "/abs/c.wav;NOLEAK;VAL;0.1;\n"
    )
    first, second = read_source(manifest(tmp_path, text)).recordings
    assert (first.path, first.label, first.split, first.weight) == (
        tmp_path / "sub/a b.wav",
        "LEAK",
        "train",
        1.0,
    )
    assert first.groups == {"site": "north"}
    assert (second.path, second.split, second.weight, second.groups) == (
        Path("/abs/c.wav"),
        "val",
        0.1,
        {"site": ""},
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("path,site\na.wav,x\n", r"needs the columns path and label; \['label'\] missing"),
        ("path,label\na.wav,LEAK\nb.wav,\nc.wav,\n", "2 recordings have no label: b.wav, c.wav"),
        ("path,label\n,LEAK\n", "line 2: the path is empty"),
        ("path,label\na.wav,LEAK\na.wav,NOLEAK\n", r"two labels: a.wav \(LEAK and NOLEAK\)"),
        ("path,label,split\na.wav,LEAK,eval\n", "split 'eval' is not one of train, val, test"),
        ("path,label,weight\na.wav,LEAK,much\n", "weight 'much' is not a number"),
        ("path,label,weight\na.wav,LEAK,-1\n", "weight '-1' is not a number"),
        ("path,label,duration_s\na.wav,LEAK,3\n", r"columns \['duration_s'\] are reserved"),
        ("path,label\na.wav,LEAK,extra\n", "line 2: it does not have 2 fields"),
        ("path,label\n", "no recordings found"),
    ],
)
def test_a_manifest_that_says_too_little_or_two_things(tmp_path: Path, text: str, message: str):
    with pytest.raises(InputError, match=message):
        read_source(manifest(tmp_path, text))


def test_nothing_there(tmp_path: Path):
    with pytest.raises(InputError, match="no such file or folder"):
        read_source(tmp_path / "absent")
    with pytest.raises(InputError, match="no recordings found"):
        read_source(tmp_path)


def test_names_that_are_not_text_are_kept(tmp_path: Path):
    (tmp_path / "LEAK").mkdir()
    raw = os.fsencode(tmp_path / "LEAK") + b"/caf\xe9.wav"
    Path(os.fsdecode(raw)).touch()
    (recording,) = read_source(tmp_path).recordings
    assert recording.path.exists()
    assert recording.recording_id.encode("utf-8").decode() == "LEAK/caf\\xe9.wav"
