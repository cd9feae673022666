"""All or nothing: a store is built on a bench beside its place, a file beside its own, and renamed when it is whole."""

import os
import shutil
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from tempfile import mkdtemp

from leakdet.errors import InputError

LOCK = "lock"  # on a bench: held as long as its process lives, whatever number the process has
REPLACED = "replaced"  # on a bench: the old store, while the new one takes its name


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A file beside `path` to write, renamed when the block ends; where it fails nothing is left, and `path` is as it was."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield beside
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def check_free(out: Path, overwrite: bool) -> None:
    """Raises `InputError` where `out` may not be written. What killed builds left is put right first: a store that one had
    moved away gets its name back.
    """
    _clear_stale(out)
    if not _is_taken(out):
        return
    if not (out / "build.json").exists():
        raise InputError(f"{out}: exists and is no store; give out= another name or remove it.")
    if not overwrite:
        raise InputError(
            f"{out}: there is a store already; add overwrite=true to replace it, or give out= another name."
        )


@contextmanager
def workplace(out: Path) -> Iterator[Path]:
    """A folder on a bench beside `out`, hence on its file system; the bench goes when the block ends, as do those that killed
    builds left.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    _clear_stale(out)
    bench = Path(mkdtemp(prefix=_prefix(out), dir=out.parent))
    with ExitStack() as stack:
        stack.callback(_remove_cleared, bench)
        stack.enter_context(_locked(bench))
        stack.callback(_clear, bench, out)
        folder = bench / "store"
        folder.mkdir()
        yield folder


def publish(folder: Path, out: Path, used: Sequence[Path] = ()) -> None:
    """Give the workplace `folder` the name `out`, in place of what is there; `used` folders go, each at one stroke."""
    bench = folder.parent
    if _is_taken(out):
        out.rename(bench / REPLACED)
        folder.rename(out)
    else:
        os.replace(folder, out)
    put_away(folder, used)


def put_away(folder: Path, used: Sequence[Path]) -> None:
    """Move folders to the bench of `folder`, with which they are removed: none is ever seen half removed."""
    for path in used:
        path.rename(folder.parent / path.name)


def _prefix(out: Path) -> str:
    """Locks of other machines cannot be trusted on every file system, so that a machine clears up its own benches only."""
    return f".{out.name}.building-{socket.gethostname()}-"


def _is_taken(out: Path) -> bool:
    return out.exists() and not (out.is_dir() and not any(out.iterdir()))


@contextmanager
def _locked(bench: Path) -> Iterator[None]:
    fresh = bench / f"{LOCK}.new"
    with fresh.open("w") as file:
        # a file system without locks: then no bench on it is ever taken for stale
        with suppress(OSError):
            flock(file, LOCK_EX | LOCK_NB)
        fresh.rename(bench / LOCK)  # nobody finds it unlocked
        yield


def _clear_stale(out: Path) -> None:
    """Clear the benches of dead processes. One that is locked, or cannot be tried, is left alone."""
    for bench in list(out.parent.iterdir()) if out.parent.is_dir() else []:
        if f"{bench.name.rpartition('-')[0]}-" == _prefix(out):
            with suppress(OSError):
                with (bench / LOCK).open("r+") as file:
                    flock(file, LOCK_EX | LOCK_NB)
                    _clear(bench, out)
                _remove_cleared(bench)


def _clear(bench: Path, out: Path) -> None:
    """Remove what lies on the bench, but for its lock. The only copy of a store goes back to its place."""
    replaced = bench / REPLACED
    if (replaced.exists() or replaced.is_symlink()) and not _is_taken(out):
        replaced.rename(out)
    for path in bench.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        elif path.name != LOCK:
            path.unlink()


def _remove_cleared(bench: Path) -> None:
    """Where something could not be removed the lock stays too, so that a later build tries again."""
    with suppress(OSError):  # another build may be at it too
        if [path.name for path in bench.iterdir()] == [LOCK]:
            (bench / LOCK).unlink()
            bench.rmdir()
