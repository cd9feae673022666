"""Opening HDF5 files for reading, with messages that name the file and the way out: HDF5's own say neither."""

from pathlib import Path

import h5py

from leakdet.errors import InputError

# where mel begins at a page, in a file as in memory, its rows share no line of the processor's cache
PAGE_BYTES = 4096


def open_h5(path: Path) -> h5py.File:
    """Open for reading; `InputError` says which file cannot be, why, and what to do."""
    try:
        try:
            # readers need no lock, and network file systems may refuse one
            return h5py.File(path, "r", locking=False)
        except OSError as error:
            if "locking flag values" not in str(error):
                raise
            # the caller has it open as h5py opens files by default; a process must open it alike
            return h5py.File(path, "r")
    except OSError as error:
        why, remedy = _reason(error)
        raise InputError(f"{path}: cannot be read as HDF5 ({why}). {remedy}") from error


def _reason(error: OSError) -> tuple[str, str]:
    text = str(error)
    if isinstance(error, FileNotFoundError):
        return "there is no such file", "Give the path of a file that is there."
    if isinstance(error, PermissionError):
        return "you may not read it", "Have its owner give you the right to."
    if "truncated" in text:
        return "it is cut off", "Build it again."
    # Readers ask for no lock, but the variable HDF5_USE_FILE_LOCKING overrules them.
    if "lock file" in text or "already open for write" in text:
        return (
            "it is locked",
            "If a program is writing it, wait until it is done. If not, its file system knows no locks: "
            "set the environment variable HDF5_USE_FILE_LOCKING=FALSE.",
        )
    return text.splitlines()[0], "Build it again."
