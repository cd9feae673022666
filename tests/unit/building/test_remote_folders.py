"""Folders behind a URL give the recordings of the same folders on a disk."""

from pathlib import Path
from typing import Any

import fsspec
import pytest
from tests.remote_stores import FlakyStore

from leakdet._remote import RemoteFile
from leakdet.building.label_folders import from_folders
from leakdet.building.remote_folders import from_remote_folders
from leakdet.building.sources import Source
from leakdet.errors import InputError

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
    with pytest.raises(InputError, match="flaky://net/audio/old: a folder with sound beside"):
        from_remote_folders(ROOT)
