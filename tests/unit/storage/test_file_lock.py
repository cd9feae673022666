"""A lock among processes."""

from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path

import pytest

from leakdet.storage.file_lock import locked


def test_a_lock_shuts_others_out_until_it_is_left(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "lock"
    with locked(path), path.open("a") as other, pytest.raises(BlockingIOError):
        flock(other, LOCK_EX | LOCK_NB)
    with path.open("a") as other:
        flock(other, LOCK_EX | LOCK_NB)


def test_who_does_not_wait_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locked(path), pytest.raises(BlockingIOError), locked(path, wait=False):
        pass
    with locked(path, wait=False), pytest.raises(BlockingIOError), locked(path, wait=False):
        pass
