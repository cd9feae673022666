"""Paths, URLs, folders and arrays that a caller gives."""

from pathlib import Path

import fsspec
import numpy as np
import pytest
from tests.remote_stores import FlakyStore

from leakdet._remote import RemoteFile
from leakdet.acoustics.array_recording import ArrayRecording
from leakdet.scoring.given_recordings import is_single, sources_of

SOUND = (np.zeros(100, np.float32), 8000)


def test_files_folders_and_arrays(tmp_path: Path) -> None:
    (tmp_path / "a.wav").touch()
    (tmp_path / "b.txt").touch()
    assert list(sources_of(tmp_path)) == list(sources_of([tmp_path / "a.wav"]))
    assert list(sources_of(f"file://{tmp_path}/a.wav")) == [tmp_path / "a.wav"]
    assert isinstance(next(sources_of([SOUND, "x.wav"])), ArrayRecording)
    assert is_single(SOUND)
    assert is_single("x.wav")
    assert not is_single(tmp_path)
    assert not is_single([SOUND])
    with pytest.raises(TypeError, match="is of type int"):
        list(sources_of([3]))


def test_urls_of_files_and_folders(flaky: type[FlakyStore]) -> None:
    store = fsspec.filesystem("flaky")
    store.pipe_file("/net/night/a.wav", b"")
    store.pipe_file("/net/night/odd", b"")
    night = RemoteFile("flaky://net/night")
    assert list(sources_of(night)) == list(sources_of([str(night / "a.wav")])) == [night / "a.wav"]
    assert not is_single("flaky://net/night")
    assert is_single(night / "odd")
    flaky.requests.clear()
    assert is_single(night / "a.wav")
    assert not flaky.requests
