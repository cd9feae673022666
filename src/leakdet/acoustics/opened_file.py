"""Opens the file of a recording: by descriptor, a pipe copied first, a URL in blocks."""

import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import IO

from leakdet._remote import RemoteFile
from leakdet.acoustics.remote_bytes import RemoteBytes
from leakdet.errors import InputError


def opened_file(path: Path | RemoteFile) -> IO[bytes] | RemoteBytes:
    """The file, or a copy of what comes through a pipe; `-` is standard input."""
    if isinstance(path, RemoteFile):
        return RemoteBytes(path)
    try:
        if str(path) == "-":
            path = Path("/dev/stdin")
        kind = path.stat().st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISFIFO(kind)):
            what = "a folder" if stat.S_ISDIR(kind) else "a device or socket"
            raise InputError(f"it is {what}, not a sound file or a pipe")
        file = path.open("rb")
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return file
        copy = tempfile.TemporaryFile()  # noqa: SIM115  the caller closes it
        with file:
            shutil.copyfileobj(file, copy)
        copy.flush()
        return copy
    except OSError as error:
        raise InputError(f"the file cannot be opened: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"the file cannot be opened: {error}") from error
