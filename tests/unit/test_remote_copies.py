"""Local copies of files behind URLs."""

import subprocess
import sys
from pathlib import Path

import fsspec
import pytest
from tests.remote_stores import FlakyStore

from leakdet._remote import RemoteFile
from leakdet._remote_copies import local_copy, told_as
from leakdet.errors import InputError


def test_a_file_is_copied_under_its_name(flaky: type[FlakyStore]) -> None:
    fsspec.filesystem("flaky").pipe_file("/net/model.safetensors", b"weights")
    copy = local_copy(RemoteFile("flaky://net/model.safetensors"))
    assert (copy.name, copy.read_bytes()) == ("model.safetensors", b"weights")
    assert local_copy(copy) is copy
    with pytest.raises(InputError, match=r"model=flaky://net/none: there is no such file"):
        local_copy(RemoteFile("flaky://net/none"), "model=")


def test_copies_are_removed_when_the_process_ends() -> None:
    code = (
        "import fsspec; from leakdet._remote import RemoteFile\n"
        "from leakdet._remote_copies import local_copy\n"
        "fsspec.filesystem('memory').pipe_file('/a', b'x')\n"
        "print(local_copy(RemoteFile('memory://a')))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    copy = Path(answer.stdout.strip())
    assert copy.name == "a"
    assert not copy.parent.exists()


def test_errors_name_the_file_and_not_its_copy() -> None:
    file, copy = RemoteFile("s3://bucket/list.csv"), Path("/tmp/leakdet-1/list.csv")
    with (
        pytest.raises(InputError, match=r"^s3://bucket/list.csv, line 2: bad$"),
        told_as(file, copy),
    ):
        raise InputError(f"{copy}, line 2: bad")
    with pytest.raises(InputError, match=r"^/tmp/leakdet-1/list.csv: bad"), told_as(copy, copy):
        raise InputError(f"{copy}: bad")
