"""Atomic writes: build in a temporary sibling, then rename; no reader sees half a file or store.

A store is built in a staging folder `.NAME.building-HOST-…` beside its place. That folder is locked
while its process lives; what a killed process left is cleared up by the next build on its machine.
"""

import ctypes
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from tempfile import mkdtemp

from leakdet.errors import InputError

# names in a staging folder
LOCK = "lock"
AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of Linux
REPLACED = "replaced"  # the old store, while the new one takes its name


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Temporary sibling of `path` to write; it takes the name once its bytes are on the disk.

    Where the block fails nothing is left and `path` is as it was.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield partial
        if partial.exists():
            flush_to_disk(partial)
            partial.replace(path)
            flush_to_disk(path.parent)  # the new name too
    finally:
        partial.unlink(missing_ok=True)


def write_whole(path: Path, text: str, errors: str = "strict") -> None:
    """Write a text file that gets its name when it is whole."""
    with whole_file(path) as partial:
        partial.write_text(text, encoding="utf-8", errors=errors)


def flush_to_disk(path: Path) -> None:
    """Wait until a file's bytes, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def check_free(out: Path, overwrite: bool) -> None:
    """Check that a store may be written to `out`, after cleaning up what killed builds left.

    Raises:
        InputError: there is something other than a store, or a store and `overwrite` is false.
    """
    _clear_stale(out)
    if not is_taken(out):
        return
    if not (out / "build.json").exists():
        raise InputError(f"{out}: exists and is not a store; give out= another name or remove it.")
    if not overwrite:
        raise InputError(
            f"{out}: holds a store already; add overwrite=true to replace it, or give out= another "
            "name."
        )


@contextmanager
def staged_folder(out: Path) -> Iterator[Path]:
    """A folder to build `out` in, on the same file system; removed when the block ends."""
    out.parent.mkdir(parents=True, exist_ok=True)
    _clear_stale(out)
    staging = Path(mkdtemp(prefix=_prefix(out), dir=out.parent))
    with ExitStack() as stack:
        stack.callback(_remove_cleared, staging)
        stack.enter_context(_locked(staging))
        stack.callback(_clear, staging, out)
        folder = staging / "store"
        folder.mkdir()
        yield folder


def publish(folder: Path, out: Path) -> None:
    """Rename the staged `folder` to `out`, replacing the store there."""
    if is_taken(out):
        if not _exchanged(folder, out):
            out.rename(folder.parent / REPLACED)
            folder.rename(out)
    else:
        folder.replace(out)


def _exchanged(folder: Path, out: Path) -> bool:
    """Exchange two folders in one step, so that `out` is there all the time.

    False, and nothing is done, where the system or its file system cannot.
    """
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None)
    if renameat2 is None or out.is_symlink():
        return False
    paths = AT_FDCWD, os.fsencode(folder), AT_FDCWD, os.fsencode(out)
    return int(renameat2(*paths, RENAME_EXCHANGE)) == 0


def _prefix(out: Path) -> str:
    """Start of a staging folder's name, with the host: locks may not reach other machines."""
    return f".{out.name}.building-{socket.gethostname()}-"


def is_taken(out: Path) -> bool:
    """True if there is something other than an empty folder."""
    return out.exists() and not (out.is_dir() and not any(out.iterdir()))


@contextmanager
def _locked(staging: Path) -> Iterator[None]:
    unnamed = staging / f"{LOCK}.new"
    with unnamed.open("w") as file:
        # on a file system without locks no staging folder counts as stale
        with suppress(OSError):
            flock(file, LOCK_EX | LOCK_NB)
        unnamed.rename(staging / LOCK)  # under this name it is always locked
        yield


def _clear_stale(out: Path) -> None:
    """Clear the staging folders of dead processes; those whose lock is held, or unknown, stay."""
    for staging in list(out.parent.iterdir()) if out.parent.is_dir() else []:
        if f"{staging.name.rpartition('-')[0]}-" == _prefix(out):
            with suppress(OSError):
                with (staging / LOCK).open("r+") as file:
                    flock(file, LOCK_EX | LOCK_NB)
                    _clear(staging, out)
                _remove_cleared(staging)


def _clear(staging: Path, out: Path) -> None:
    """Remove all but the lock; the only copy of a store goes back to its place."""
    replaced = staging / REPLACED
    if (replaced.exists() or replaced.is_symlink()) and not is_taken(out):
        replaced.rename(out)
    for path in staging.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        elif path.name != LOCK:
            path.unlink()


def _remove_cleared(staging: Path) -> None:
    """Remove a staging folder that holds nothing but its lock."""
    with suppress(OSError):  # another build may be at it too
        if [path.name for path in staging.iterdir()] == [LOCK]:
            (staging / LOCK).unlink()
            staging.rmdir()
