"""Recordings of label folders."""

import os
from pathlib import Path

import pytest

from leakdet.building.label_folders import from_folders
from leakdet.errors import InputError


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
    source = from_folders(tmp_path)
    assert sorted((r.recording_id, r.label, r.split) for r in source.recordings) == [
        ("Validation/NOLEAK/b.wav", "NOLEAK", "val"),
        ("test/LEAK/c.wav", "LEAK", "test"),
        ("train/LEAK/a.wav", "LEAK", "train"),
    ]
    assert [Path(item.path).name for item in source.left_out] == ["stray.wav"]
    assert source.remarks == ["hidden files and folders skipped: 2"]


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
    with pytest.raises(InputError, match=r"/new: a folder with sound beside the folders train"):
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
    assert all("the link cannot be followed" in item.reason for item in left_out)


def test_kinds_that_cannot_be_read_are_left_out_by_count(tmp_path: Path):
    touch(tmp_path, "LEAK/a.wav", "LEAK/b.m4a", "NOLEAK/c.m4a", "NOLEAK/notes.txt")
    (item,) = from_folders(tmp_path).left_out
    assert item.path == f"{tmp_path}/**/*.m4a"
    assert item.reason.startswith("2 files of kinds that cannot be read; ")


def test_names_that_are_not_text_are_kept(tmp_path: Path):
    touch(tmp_path, "LEAK/" + os.fsdecode(b"caf\xe9.wav"))
    (recording,) = from_folders(tmp_path).recordings
    assert recording.path.exists()
    assert recording.recording_id.encode("utf-8").decode() == "LEAK/caf\\xe9.wav"
