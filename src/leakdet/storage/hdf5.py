"""Opening HDF5 files for reading, with messages that name the file and the remedy."""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py

from leakdet.errors import InputError, LeakdetError
from leakdet.storage.seal import USER_BLOCK_BYTES, seal_store, store_is_sealed
from leakdet.storage.unsealed_hdf5 import check_ends

REBUILD = "Build the store again, or copy it again from an undamaged one."
UNSEALED_DATA = ("mel", "waveform")  # large, and not read to open a split
# set while a program has the file open for writing
WRITING = (USER_BLOCK_BYTES + 20, USER_BLOCK_BYTES + 24)
SYSTEM_REASON = re.compile(r"errno = (?!22\b)\d+, error message = '([^']+)'")  # 22: a wrong address


@contextmanager
def open_h5(path: Path) -> Iterator[h5py.File]:
    """Open for reading. What h5py raises on a damaged file, here or in the block, is a sentence.

    Raises:
        InputError: says why the file cannot be opened or read, and what to do.
    """
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
    with h5py.File(path, "r") as file:
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
