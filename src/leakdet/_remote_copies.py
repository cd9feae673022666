"""Local copies of files behind URLs, for what is read from the disk; removed when leakdet ends."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from leakdet._remote import RemoteFile, named
from leakdet.errors import InputError

_folders: list[tempfile.TemporaryDirectory[str]] = []  # removed at the end of the process


def local_copy(file: Path | RemoteFile, word: str = "") -> Path:
    """A copy of a file under its own name; a local file as it is.

    `word` is what stands before it on the command line, such as `source=`.

    Raises:
        InputError: it cannot be had; names it.
    """
    if isinstance(file, Path):
        return file
    copy = new_folder() / file.name
    try:
        copy.write_bytes(file.read_bytes())
    except InputError as error:
        raise named(file, error, word) from error
    return copy


def new_folder() -> Path:
    """An empty folder of this process."""
    _folders.append(tempfile.TemporaryDirectory(prefix="leakdet-"))
    return Path(_folders[-1].name)


@contextmanager
def told_as(file: Path | RemoteFile, copy: Path) -> Iterator[None]:
    """Name the file itself where an error of the block names its copy."""
    try:
        yield
    except InputError as error:
        if str(file) == str(copy):
            raise
        raise InputError(str(error).replace(str(copy), str(file))) from error
