"""What a source of `build` lists."""

import os
from pathlib import Path

import fsspec
import pytest
from tests.remote_stores import FlakyStore

from leakdet.building.listing import read_source
from leakdet.core.errors import InputError
from leakdet.core.locations import RemoteFile


def test_a_folder_or_a_manifest(tmp_path: Path):
    for label in ("LEAK", "NOLEAK"):
        (tmp_path / label).mkdir()
        (tmp_path / label / "a.wav").touch()
    table = tmp_path / "list.csv"
    table.write_text("path,label\nLEAK/a.wav,LEAK\nNOLEAK/a.wav,NOLEAK\n")
    for source in (tmp_path, table):
        found = [(r.recording_id, r.label) for r in read_source(source).recordings]
        assert found == [("LEAK/a.wav", "LEAK"), ("NOLEAK/a.wav", "NOLEAK")]


def test_a_pipe_is_no_source(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")  # opening it would wait for a writer
    with pytest.raises(InputError, match=r"pipe: .*socket.*name that file"):
        read_source(tmp_path / "pipe")


def test_a_recording_is_no_source(tmp_path: Path, flaky: type[FlakyStore]):
    (tmp_path / "a.wav").touch()
    fsspec.filesystem("flaky").pipe_file("/net/a.wav", b"")
    for source in (tmp_path / "a.wav", RemoteFile("flaky://net/a.wav")):
        with pytest.raises(InputError, match=r"a\.wav: .*a recording.*source= takes"):
            read_source(source)
    assert flaky.requests["cat_file"] == 0


def test_nothing_there(tmp_path: Path):
    with pytest.raises(InputError, match="absent: no such"):
        read_source(tmp_path / "absent")
    with pytest.raises(InputError, match="no recordings found"):
        read_source(tmp_path)
    (tmp_path / "leak").mkdir()
    (tmp_path / "leak" / "a.wav").touch()
    with pytest.raises(
        InputError, match=rf"leak: 1 recording .*give {tmp_path}, the folder above it\.$"
    ):
        read_source(tmp_path / "leak")
    table = tmp_path / "list.csv"
    table.write_text("path,label\n")
    with pytest.raises(InputError, match=r"list\.csv: .*no rows.*Add a row"):
        read_source(table)
    table.write_text("path,label\nnone.wav,LEAK\n")
    with pytest.raises(InputError, match=r"1 left out.*line 2 \(none.wav\): no such"):
        read_source(table)


def test_a_url_is_looked_for_and_listed(flaky: type[FlakyStore]) -> None:
    fsspec.filesystem("flaky").pipe_file("/net/audio/LEAK/a.wav", b"")
    fsspec.filesystem("flaky").pipe_file("/net/audio/list", b"path,label,site\nLEAK/a.wav,LEAK,x\n")
    for source, groups in (("audio", {}), ("audio/list", {"site": "x"})):
        (recording,) = read_source(RemoteFile(f"flaky://net/{source}")).recordings
        assert str(recording.path) == "flaky://net/audio/LEAK/a.wav"
        assert recording.groups == groups
    fsspec.filesystem("flaky").pipe_file("/net/empty", b"path,label\n")
    with pytest.raises(InputError, match=r"flaky://net/empty: .*no rows.*Add a row"):
        read_source(RemoteFile("flaky://net/empty"))
    with pytest.raises(InputError, match=r"flaky://net/none: no such .*source="):
        read_source(RemoteFile("flaky://net/none"))
    flaky.failures[:] = [PermissionError("Access Denied")]
    with pytest.raises(InputError, match="source=flaky://net/audio: access is forbidden"):
        read_source(RemoteFile("flaky://net/audio"))
