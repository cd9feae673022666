"""The folder in which stores are kept that are made or copied once."""

import os
from pathlib import Path

from leakdet.errors import InputError

REMEDY = "Name a folder for it: data.cache=FOLDER."


def default_cache() -> Path:
    """`$XDG_CACHE_HOME/leakdet`, usually `~/.cache/leakdet`.

    Raises:
        InputError: this user has no home folder.
    """
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
