"""The folder of a run, which one run at a time writes to."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from itertools import count
from pathlib import Path

from leakdet.errors import SettingsError

RANKS = ("LOCAL_RANK", "RANK", "NODE_RANK", "SLURM_PROCID")  # one run may have many processes


def is_further_process() -> bool:
    """True in a process of a run whose first process has claimed the folder."""
    return any(int(os.environ.get(name) or 0) for name in RANKS)


def fresh_folder(wanted: Path) -> Path:
    """Make `wanted`, or where another run has taken that name, `wanted-2` and so on."""
    wanted.parent.mkdir(parents=True, exist_ok=True)
    for number in count(1):
        folder = wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}")
        with suppress(FileExistsError):
            folder.mkdir()
            return folder
    raise AssertionError("count() ends")


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Keep `folder`, which is made, for this process and those it starts.

    Raises:
        SettingsError: another run is writing to it, or it is a file.
    """
    if is_further_process():
        yield
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise SettingsError(
            f"{folder}: a run needs a folder, and a file is in its place."
        ) from error
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _lock(descriptor, folder)
        try:
            yield
        finally:
            with suppress(OSError):  # in use
                folder.rmdir()
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path) -> None:
    try:
        flock(descriptor, LOCK_EX | LOCK_NB)
    except BlockingIOError as error:
        raise SettingsError(
            f"{folder}: another run is writing to this folder. Wait for its end, or name another "
            "folder (hydra.run.dir=)."
        ) from error
    except OSError:  # a file system without locks
        pass
