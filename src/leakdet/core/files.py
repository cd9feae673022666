"""Files: atomic writes, locks, free space, seals, JSON, and the sentence where one is damaged.

A store is built in a staging folder `.NAME.building-HOST-…` beside its place. That folder is locked
while its process lives; what a killed process left is cleared up by the next build on its machine.

The seal of a store's HDF5 file is in the user block in front of it, which HDF5 skips; that of a
model file is in its metadata. It covers every byte but its own and, so that a store opens without
being read, the mel and sound of a store. Mel has a checksum for each recording.
"""

import ctypes
import errno
import json
import os
import re
import shutil
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock
from functools import lru_cache
from hashlib import blake2b
from itertools import chain, count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from leakdet.core.errors import InputError, LeakdetError, SettingsError
from leakdet.core.locations import without_secrets
from leakdet.core.messages import LOG

LOCK = "lock"  # in a staging folder
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
            flush_to_disk(partial, path)
            with system_asked(path, "replace a file by renaming another"):
                partial.replace(path)
            flush_names(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def write_whole(path: Path, text: str, errors: str = "strict") -> None:
    """Write a text file that gets its name when it is whole."""
    with whole_file(path) as partial:
        partial.write_text(text, encoding="utf-8", errors=errors)


# what a file system, such as that of a share or a stick, answers where it lacks a feature
LACKING = {getattr(errno, name) for name in "EINVAL EPERM ENOTSUP EOPNOTSUPP ENOSYS ENOLCK".split()}


@contextmanager
def system_asked(path: Path, feature: str) -> Iterator[None]:
    """Name the file in a system error of the block; an `InputError` where `feature` may lack."""
    try:
        yield
    except OSError as error:
        if error.errno in LACKING:
            raise InputError(
                f"{path}: its file system could not {feature} ({error.strerror}). Write to "
                "another one, such as a disk of this machine."
            ) from error
        error.filename, error.filename2 = str(path), None
        raise


def flush_to_disk(written: Path, path: Path) -> None:
    """Wait until the bytes of `written`, which becomes `path`, are on the disk."""
    with system_asked(path, "flush it to the disk (fsync)"), written.open("r+b") as file:
        os.fsync(file.fileno())


def flush_names(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where its file system can do so."""
    with suppress(OSError):  # older CIFS, VirtualBox, FUSE: the names are there all the same
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def replace_link(link: Path, target: Path | str) -> None:
    """Point a symbolic link to `target` in one atomic step, whether it is there or not."""
    beside = link.with_name(f".{link.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)  # of a process of this number that was killed
    try:
        beside.symlink_to(target)
        os.replace(beside, link)
    finally:
        beside.unlink(missing_ok=True)


def check_free(out: Path, overwrite: bool) -> None:
    """Check that a store may be written to `out`, after cleaning up what killed builds left."""
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
        with suppress(OSError):  # some file systems rename no folder over an empty one
            out.rmdir()
        folder.rename(out)


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


@contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[None]:
    """Hold an exclusive lock among processes; the system releases it when the holder dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            flock(file, LOCK_EX if wait else LOCK_EX | LOCK_NB)
        except OSError as error:
            if error.errno not in LACKING:
                raise
            _say_without_locks(path.parent)
        try:
            yield
        finally:
            with suppress(OSError):
                flock(file, LOCK_UN)


@lru_cache
def _say_without_locks(folder: Path) -> None:
    LOG.warning(
        f"{folder}: its file system has no locks (flock), so that nothing keeps two commands from "
        "writing there at once: run one at a time, or name a place on another disk"
    )


@contextmanager
def building_alone(out: Path, setting: str = "") -> Iterator[None]:
    """Hold the only build into `out`: another one waits or, where a `setting` names it, ends."""
    lock = out.with_name(f".{out.name}.lock")
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(lock, wait=False))
        except BlockingIOError as error:
            if setting:
                raise InputError(
                    f"{setting}={out}: another build is writing this store. Wait for its end, or "
                    "give out= another name."
                ) from error
            LOG.info(f"wait     {out}: another command is building this store")
            stack.enter_context(locked(lock))
        stack.callback(lock.unlink, missing_ok=True)
        yield


def from_here(path: Path) -> Path:
    """The path as it is typed in the working folder, where it lies below that."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


RESULTS = ("metrics.json", "recordings.csv", "report.html")


def require_space(place: Path, need_bytes: int, what: str) -> str:
    """Check that the disk of `place`, which need not exist yet, has room for about so many bytes.

    Returns how much will be written and how much is free, for the user. `what` names the work in
    the error.
    """
    free = shutil.disk_usage(_existing(place)).free
    text = f"about {megabytes(need_bytes)} will be written, and its disk has {megabytes(free)} left"
    if need_bytes > free:
        raise InputError(f"{what}: {text}; free some space, or write elsewhere.")
    return text


def require_folder(folder: Path, what: str) -> None:
    """Check that results can be written into a folder, which need not exist yet."""
    place = _existing(folder)
    if not place.is_dir():
        raise InputError(f"{what}: {place} is a file; name a folder.")
    if not os.access(place, os.W_OK):
        raise InputError(f"{what}: {place} may not be written; choose another place.")
    for name, kind in (("build.json", "a store"), ("model.safetensors", "a training")):
        if (folder / name).exists():
            raise InputError(f"{what}: this is the folder of {kind}; name one for the results.")
    for folder_of_one in (folder, folder / "a", folder / "b"):
        _check_replaceable(folder_of_one, what)


def _check_replaceable(folder: Path, what: str) -> None:
    there = [folder / name for name in RESULTS if (folder / name).exists()]
    if not there:
        return
    content: object = None
    with suppress(OSError, ValueError):
        compares = not (folder / "metrics.json").exists()
        name = "comparison.json" if compares else "metrics.json"
        content = json.loads((folder / name).read_bytes())
    # a training's have its settings
    keys = content.keys() if isinstance(content, dict) else set[str]()
    if not {"model", "mcnemar"} & keys or "settings" in keys:
        raise InputError(
            f"{what}: {there[0]} would be replaced, and evaluate did not write it; "
            "name another folder."
        )


def _existing(place: Path) -> Path:
    """The place, or the nearest folder above it that exists."""
    while not place.exists() and place != place.parent:
        place = place.parent
    return place


def megabytes(count: int) -> str:
    """Bytes in the unit that people use.

    >>> megabytes(2114836), megabytes(13 << 30), megabytes(12)
    ('2.1 MB', '14.0 GB', '0.0 MB')
    """
    return f"{count / 1e6:.1f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"


REMEDY = "Name a folder for it: data.cache=FOLDER."


def default_cache() -> Path:
    """`$XDG_CACHE_HOME/leakdet`, usually `~/.cache/leakdet`."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "leakdet"
    except RuntimeError as error:
        raise InputError(f"this user has no home folder to keep a store in. {REMEDY}") from error


def require_writable(folder: Path) -> None:
    """Make the folder. Raises `InputError` where it may not be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        reason = "" if os.access(folder, os.W_OK) else "it may not be written"
    except OSError as error:
        reason = str(error.strerror)
    if reason:
        raise InputError(f"{folder}: no store can be kept there ({reason}). {REMEDY}")


COPY_AGAIN = "Copy it again from an undamaged one, or train again."


def require_readable(path: Path, what: str) -> None:
    """Raise `InputError` where `path` is no file or may not be read; `what` names its kind."""
    try:
        with path.open("rb"):
            pass
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such {what}.") from error
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: this {what} cannot be read ({reason}).") from error


POINTER_START = b"version https://git-lfs.github.com/spec/"
POINTER = (
    "a pointer of Git LFS in place of the file itself; fetch the file: git lfs pull (once before "
    "it: git lfs install)"
)


def refuse_pointer(path: Path) -> None:
    """Raise `InputError` for what Git leaves in place of a large file that was not fetched."""
    start = b""
    with suppress(OSError, ValueError), path.open("rb") as file:  # the reader says these
        start = file.read(len(POINTER_START))
    if start == POINTER_START:
        raise InputError(f"{path}: this is {POINTER}.")


@contextmanager
def as_input_error(path: Path, what: str, remedy: str = "") -> Iterator[None]:
    """Raise `InputError` for any error in the block, which reads the file and takes it apart.

    `what` names the kind of file that it should be, `remedy` says what to do.
    """
    try:
        yield
    except LeakdetError:
        raise
    # no text, no CSV, no JSON, no YAML, or one without what was looked for
    except Exception as error:
        refuse_pointer(path)
        reason = getattr(error, "strerror", None) or str(error).splitlines() or [repr(error)]
        if mark := getattr(error, "problem_mark", None):  # of YAML
            reason = f"line {mark.line + 1}: {getattr(error, 'problem', None) or reason[0]}"
        reason = reason if isinstance(reason, str) else reason[0]
        reason = f"it lacks {reason}" if isinstance(error, KeyError) else reason
        raise InputError(f"{path}: not {what} ({reason}). {remedy}".rstrip()) from error


KEY = "leakdet_blake2b"
UNSEALED = "0" * 32  # the digits before they are known
USER_BLOCK_BYTES = 4096  # a page, so that data sets still begin at one
READ_BYTES = 1 << 20
_SEAL = re.compile(rb'"%b": ?"([0-9a-f]{32})"' % KEY.encode())


def sealed(content: bytes) -> bytes:
    """The content of a file in which `"leakdet_blake2b":"00…"` stands, with its hash there."""
    found = _SEAL.search(content)
    if found is None:
        raise ValueError(f"the content has no {KEY}")
    start, stop = found.span(1)
    return content[:start] + _hash([_without_seal(content)]) + content[stop:]


def is_sealed(path: Path, content: bytes, remedy: str) -> bool:
    """True if the content of a file has a seal; False if it has none, as of other tools."""
    found = _SEAL.search(content)
    if found is None:
        return False
    _compare(path, found[1], [_without_seal(content)], remedy)
    return True


def seal_store(path: Path, left_out: Sequence[tuple[int, int]]) -> None:
    """Seal an HDF5 file that has a user block, but for the bytes [start, stop) of `left_out`."""
    size, ranges = path.stat().st_size, sorted(left_out)
    block = json.dumps({KEY: UNSEALED, "bytes": size, "left_out": ranges}).encode()
    block = block.ljust(USER_BLOCK_BYTES, b"\0")
    digits = _hash(chain([_without_seal(block)], _pieces(path, _kept(ranges, size))))
    with path.open("r+b") as file:
        file.write(block.replace(UNSEALED.encode(), digits, 1))


def store_is_sealed(path: Path, remedy: str) -> bool:
    """As `is_sealed`, of an HDF5 file. Its bytes are read once, and again after a change."""
    status = path.stat()
    state = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    return _store_is_sealed(path, remedy, state)


@lru_cache(maxsize=4096)
def _store_is_sealed(path: Path, remedy: str, state: tuple[int, int, int, int]) -> bool:
    size = state[2]
    with path.open("rb") as file:
        block = file.read(USER_BLOCK_BYTES)
    found = _SEAL.search(block)
    if found is None:
        return False
    try:
        facts = json.loads(block.rstrip(b"\0"))
        written = int(facts["bytes"])
        kept = _kept([(int(start), int(stop)) for start, stop in facts["left_out"]], written)
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path}: damaged in its first bytes ({error}). {remedy}") from error
    if size < written:
        raise InputError(f"{path}: it is cut off ({size} of {written} bytes). {remedy}")
    if size > written:
        raise InputError(f"{path}: damaged: it has {size} bytes, not {written}. {remedy}")
    _compare(path, found[1], chain([_without_seal(block)], _pieces(path, kept)), remedy)
    return True


def _kept(left_out: Sequence[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """The bytes [start, stop) behind the user block of which none are left out."""
    bounds = [USER_BLOCK_BYTES, *(bound for pair in left_out for bound in pair), size]
    if bounds != sorted(bounds):
        raise ValueError(f"its parts {bounds} are not in order")
    return list(zip(bounds[::2], bounds[1::2], strict=True))


def _pieces(path: Path, ranges: Sequence[tuple[int, int]]) -> Iterator[bytes]:
    with path.open("rb") as file:
        for start, stop in ranges:
            file.seek(start)
            while piece := file.read(min(READ_BYTES, stop - file.tell())):
                yield piece


def _without_seal(content: bytes) -> bytes:
    return _SEAL.sub(b"", content, count=1)


def _compare(path: Path, stored: bytes, pieces: Iterable[bytes], remedy: str) -> None:
    if stored != _hash(pieces):
        raise InputError(
            f"{path}: damaged: its bytes are not those that were written (checksum). {remedy}"
        )


def _hash(pieces: Iterable[bytes]) -> bytes:
    digest = blake2b(digest_size=16)
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest().encode()


def read_json(path: Path, what: str, remedy: str = "") -> dict[str, Any]:
    """The object in a JSON file; `what` names its kind."""
    with as_input_error(path, what, remedy):
        written = path.read_bytes()
        is_sealed(path, written, remedy)
        content = json.loads(written)
    if not isinstance(content, dict):
        raise InputError(f"{path}: not {what}. {remedy}".rstrip())
    content.pop(KEY, None)
    return content


def write_json(path: Path, content: Mapping[str, Any], seal: bool = False) -> None:
    """Write strict JSON atomically: what is undefined is null, never NaN.

    `seal`: with a hash, for what nobody edits, so that `read_json` notices a changed digit.
    """
    more = {KEY: UNSEALED} if seal else {}
    plain = json.dumps({**more, **content}, indent=2, allow_nan=False)
    text = f"{without_secrets(plain)}\n".encode()
    with whole_file(path) as partial:
        partial.write_bytes(sealed(text) if seal else text)


# one run may have many processes, which their launcher numbers
RANKS = ("LOCAL_RANK", "RANK", "NODE_RANK", "SLURM_PROCID", "JSM_NAMESPACE_RANK")
LAUNCHERS = ("SLURM_NTASKS", "TORCHELASTIC_RUN_ID", "LSB_DJOB_RANKFILE")  # Lightning knows these


def is_further_process() -> bool:
    """True in a process of a run whose first process has claimed the folder."""
    return any(launcher_rank(name) for name in RANKS)


def launcher_rank(name: str) -> int:
    """This process's number by an environment variable of its launcher; 0 where that is empty."""
    value = os.environ.get(name, "").strip()
    if value and not (value.isascii() and value.isdecimal()):
        raise SettingsError(
            f"{name}={value}: this environment variable numbers the processes of a run from 0. "
            f"Correct it in what starts leakdet, or remove it: unset {name}"
        )
    return int(value or 0)


def forget_launcher(alone: bool) -> None:
    """Remove a launcher's variables that number processes: all if `alone`, otherwise empty ones.

    A launcher such as srun also starts runs that have nothing to do with each other. Lightning
    reads the variables when it is imported, too.
    """
    is_further_process()  # says which of them makes no sense
    for name in (*RANKS, *LAUNCHERS):
        if alone or not os.environ.get(name, "").strip():
            os.environ.pop(name, None)


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
    """Keep `folder`, which is made, for this process and those it starts."""
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
