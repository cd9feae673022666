"""The file of rows that a command writes: checked first, one writer at a time, whole in the end."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import IO

from leakdet._messages import LOG
from leakdet.errors import InputError
from leakdet.storage.atomic import flush_to_disk
from leakdet.storage.disk_space import require_space

PARTIAL = ".partial"


def check_output(out: Path, about_bytes: int = 0) -> None:
    """Check before any work that `out` can be written, and that its disk has room.

    Raises:
        InputError: says why not.
    """
    if not is_regular(out):
        return
    folder = Path(os.path.realpath(out)).parent
    if not folder.is_dir():
        raise InputError(f"--out {out}: there is no folder {folder}; make it first.")
    for place in (folder, out):
        if place.exists() and not os.access(place, os.W_OK):
            raise InputError(f"--out {out}: {place} may not be written; choose another place.")
    require_space(folder, about_bytes, f"--out {out}")


def is_regular(out: Path) -> bool:
    """True if `out` is, or will be, a regular file: no device or pipe, nothing that is open."""
    if _open_descriptor(out) is not None:
        return False
    try:
        return stat.S_ISREG(out.stat().st_mode)
    except OSError:
        return True


@contextmanager
def output_file(out: Path) -> Iterator[IO[str]]:
    """A text file to write rows to. A device or pipe is written to; a link leads to its file.

    So is what the caller has opened, such as `/dev/stdout`, at its own position: it may append.

    A regular file gets its name when it is whole. Until then, and where the work ends early, its
    rows are in `NAME.partial`, which one process at a time may write.

    Raises:
        InputError: it cannot be written, or another process writes it.
    """
    if not is_regular(out):
        with _opened(out, out, os.O_WRONLY) as file:
            yield file
        return
    target = Path(os.path.realpath(out))
    partial = target.with_name(target.name + PARTIAL)
    file = _locked(out, partial)
    try:
        yield file
        file.flush()
        os.fsync(file.fileno())
        partial.replace(target)
    except BaseException:
        with suppress(OSError):  # a full disk
            file.flush()
        if partial.exists() and partial.stat().st_size:
            LOG.warning("%s holds the rows that were written", partial)
        else:
            partial.unlink(missing_ok=True)
        raise
    finally:
        with suppress(OSError):
            file.close()
    with suppress(OSError):  # a file system that cannot
        flush_to_disk(target.parent)  # the new name too


def _locked(out: Path, partial: Path) -> IO[str]:
    while True:
        file = _opened(out, partial, os.O_RDWR | os.O_CREAT)
        try:
            flock(file, LOCK_EX | LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise InputError(
                f"--out {out}: another process is writing this file; choose another name, or wait."
            ) from error
        except OSError:  # a file system without locks
            pass
        # The other process may have renamed the file between opening and locking.
        with suppress(FileNotFoundError):
            if _is_at(file, partial):
                file.truncate(0)
                return file
        file.close()


def _is_at(file: IO[str], path: Path) -> bool:
    return os.path.samestat(os.fstat(file.fileno()), path.stat())


def _opened(out: Path, path: Path, flags: int) -> IO[str]:
    number = _open_descriptor(path)
    try:
        descriptor = os.open(path, flags, 0o666) if number is None else os.dup(number)
    except OSError as error:
        raise InputError(f"--out {out}: cannot be written ({error.strerror}).") from error
    return os.fdopen(descriptor, "w", newline="", encoding="utf-8", errors="surrogateescape")


def _open_descriptor(out: Path) -> int | None:
    """The number behind `/dev/stdout` or `/dev/fd/N`, through links; None for every other path."""
    descriptors = os.path.realpath("/proc/self/fd")
    for _ in range(8):  # links that go round are told when the file is opened
        if not out.is_symlink():
            return None
        if os.path.realpath(out.parent) == descriptors:
            return int(out.name)
        out = out.parent / out.readlink()
    return None
