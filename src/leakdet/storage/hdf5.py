"""Opening HDF5 files for reading, with messages that name the file and the remedy."""

from pathlib import Path

import h5py

from leakdet.errors import InputError


def open_h5(path: Path) -> h5py.File:
    """Open for reading. `InputError` says why that is impossible and what to do."""
    try:
        try:
            # readers need no lock, and network file systems may refuse one
            return h5py.File(path, "r", locking=False)
        except OSError as error:
            if "locking flag values" not in str(error):
                raise
            # already open in this process with locking: HDF5 allows one mode per file
            return h5py.File(path, "r")
    except OSError as error:
        reason, remedy = _reason_and_remedy(error)
        raise InputError(f"{path}: cannot be read as HDF5 ({reason}). {remedy}") from error


def _reason_and_remedy(error: OSError) -> tuple[str, str]:
    text = str(error)
    if isinstance(error, FileNotFoundError):
        return "there is no such file", "Give the path of a file that exists."
    if isinstance(error, PermissionError):
        return "permission denied", "Ask its owner for read access."
    if "truncated" in text:
        return "it is cut off", "Build it again."
    # readers ask for no lock, but the variable HDF5_USE_FILE_LOCKING overrules them
    if "lock file" in text or "already open for write" in text:
        return (
            "it is locked",
            "If a program is writing it, wait until it is done. If not, its file system does not "
            "support locks: set the environment variable HDF5_USE_FILE_LOCKING=FALSE.",
        )
    return text.splitlines()[0], "Build it again."
