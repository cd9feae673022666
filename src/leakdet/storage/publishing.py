"""All or nothing: a store is built in a folder beside its place, a file beside its own, and renamed when it is whole."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from leakdet.errors import InputError


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
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not (out / "build.json").exists():
        raise InputError(f"{out}: exists and is no store; give out= another name or remove it.")
    if not overwrite:
        raise InputError(
            f"{out}: there is a store already; add overwrite=true to replace it, or give out= another name."
        )


@contextmanager
def workplace(out: Path) -> Iterator[Path]:
    """A folder beside `out`, hence on its file system; those that a killed build left behind are removed."""
    out.parent.mkdir(parents=True, exist_ok=True)
    for stale in out.parent.glob(f".{out.name}.building-*"):
        if not _is_running(stale.name.rsplit("-", 1)[1]):
            shutil.rmtree(stale, ignore_errors=True)
    folder = out.parent / f".{out.name}.building-{os.getpid()}"
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_running(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        return True
    return True


def publish(folder: Path, out: Path) -> None:
    if out.exists() and any(out.iterdir()):
        replaced = out.parent / f".{out.name}.building-{os.getpid()}-replaced"
        out.rename(replaced)
        folder.rename(out)
        shutil.rmtree(replaced)
    else:
        os.replace(folder, out)
