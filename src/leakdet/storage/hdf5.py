"""HDF5 files: opened with messages that name the remedy, and looked at safely without a seal.

In a damaged file HDF5 may follow a circle of addresses for ever, inside C, where no signal of
Python and no thread reaches it. A seal notices the damage before; stores of other tools have
none.
"""

import errno
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import h5py

from leakdet.core.errors import InputError, LeakdetError
from leakdet.core.files import USER_BLOCK_BYTES, refuse_pointer, seal_store, store_is_sealed

CPU_S = 4  # of the look, which takes a tenth of a second; waiting for a slow disk takes none
MEMORY_BYTES = 1 << 30  # a circle may also take memory without end
SMALL_BYTES = 64 << 20  # data sets up to here are read; of larger ones the index of their chunks
OUT_OF_MEMORY = 3
LOOK = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, ({CPU_S}, {CPU_S} + 1))
resource.setrlimit(resource.RLIMIT_DATA, ({MEMORY_BYTES}, {MEMORY_BYTES}))
import h5py
def look(name, item):
    dict(item.attrs)
    if isinstance(item, h5py.Dataset):
        if item.chunks:
            item.id.get_num_chunks()
        if item.nbytes <= {SMALL_BYTES}:
            item[...]
try:
    with h5py.File(sys.argv[1], "r", locking=False) as file:
        dict(file.attrs)
        file.visititems(look)
except Exception as error:
    is_memory = isinstance(error, MemoryError) or "alloc" in str(error)
    sys.exit({OUT_OF_MEMORY} if is_memory else 0)
"""
ENDLESS = (OUT_OF_MEMORY, -signal.SIGXCPU, -signal.SIGKILL, -signal.SIGSEGV, -signal.SIGABRT)


def check_ends(path: Path, remedy: str) -> None:
    """Check that HDF5 comes to an end with this file; once, and again after a change."""
    status = path.stat()
    _check_ends(path, remedy, (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns))


@lru_cache(maxsize=4096)
def _check_ends(path: Path, remedy: str, state: tuple[int, int, int, int]) -> None:
    # -P: no module in the current folder is imported; errors are met again, and told, by the reader
    command = [sys.executable, "-P", "-c", LOOK, str(path)]
    nothing = subprocess.DEVNULL
    code = subprocess.run(
        command, stdin=nothing, stdout=nothing, stderr=nothing, check=False
    ).returncode
    if code in ENDLESS:
        raise InputError(f"{path}: damaged: HDF5 never comes to an end with it. {remedy}")


REBUILD = "Build the store again, or copy it again from an undamaged one."
UNSEALED_DATA = ("mel", "waveform")  # large, and not read to open a split
# set while a program has the file open for writing
WRITING = (USER_BLOCK_BYTES + 20, USER_BLOCK_BYTES + 24)
SYSTEM_REASON = re.compile(r"errno = (?!22\b)\d+, error message = '([^']+)'")  # 22: a wrong address


@contextmanager
def open_h5(path: Path) -> Iterator[h5py.File]:
    """Open for reading. What h5py raises on a damaged file, here or in the block, is a sentence."""
    refuse_pointer(path)
    try:
        # of what is no file, h5py says what is wrong
        if path.is_file() and not store_is_sealed(path, REBUILD):
            check_ends(path, REBUILD)
        with _opened(path) as file:
            yield file
    except LeakdetError:
        raise
    # of a damaged file: OSError, RuntimeError, KeyError, TypeError, AttributeError, MemoryError …
    except Exception as error:
        reason, remedy = _reason_and_remedy(error)
        raise InputError(f"{path}: cannot be read as HDF5 ({reason}). {remedy}") from error


def _opened(path: Path) -> h5py.File:
    try:
        # readers need no lock, and network file systems may refuse one
        return h5py.File(path, "r", locking=False)
    except OSError as error:
        if "locking flag values" not in str(error):
            raise
        # already open in this process with locking: HDF5 allows one mode per file
        return h5py.File(path, "r")


def seal_h5(path: Path) -> None:
    """Seal a store's file as it is now: after it was written, or changed on purpose."""
    with _opened(path) as file:
        data = [file[name] for name in UNSEALED_DATA if name in file]
        ranges = [WRITING, *(bounds for dataset in data for bounds in _bytes_of(dataset))]
    seal_store(path, ranges)


def _bytes_of(dataset: h5py.Dataset) -> list[tuple[int, int]]:
    """Bounds in the file of a data set, or of all of its chunks; none of an empty one."""
    places: list[tuple[int, int]] = []
    if dataset.chunks:
        dataset.id.chunk_iter(lambda chunk: places.append((chunk.byte_offset, chunk.size)))
    elif dataset.size:
        places.append((dataset.id.get_offset(), dataset.size * dataset.dtype.itemsize))
    ends = [start + size for start, size in places]
    return [(min(places)[0], max(ends))] if places else []


def _reason_and_remedy(error: Exception) -> tuple[str, str]:
    text = str(error) or type(error).__name__
    if isinstance(error, FileNotFoundError):
        return "there is no such file", "Give the path of a file that exists."
    if isinstance(error, PermissionError):
        return "permission denied", "Ask its owner for read access."
    if "truncated" in text:
        return "it is cut off", REBUILD
    # readers ask for no lock, but the variable HDF5_USE_FILE_LOCKING overrules them
    if "lock file" in text or "already open for write" in text:
        return (
            "it is locked",
            "If a program is writing it, wait until it is done. If not, its file system does not "
            "support locks: set the environment variable HDF5_USE_FILE_LOCKING=FALSE.",
        )
    system = SYSTEM_REASON.search(text)
    if system or (isinstance(error, OSError) and error.errno not in (None, errno.EINVAL)):
        return system[1] if system else text, "Was it moved, or its disk disconnected?"
    if isinstance(error, MemoryError):
        return "it asks for more memory than there is", f"If others can be read: {REBUILD}"
    return f"damaged: {text.splitlines()[0]}", REBUILD
