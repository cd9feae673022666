"""Checks before work begins of the place where it will write, and of the free space there."""

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

from leakdet.errors import InputError

RESULTS = ("metrics.json", "recordings.csv", "report.html")


def require_space(place: Path, need_bytes: int, what: str) -> str:
    """Check that the disk of `place`, which need not exist yet, has room for about so many bytes.

    Returns how much will be written and how much is free, for the user. `what` names the work in
    the error.

    Raises:
        InputError: there is less.
    """
    free = shutil.disk_usage(_existing(place)).free
    text = f"about {megabytes(need_bytes)} will be written, and its disk has {megabytes(free)} left"
    if need_bytes > free:
        raise InputError(f"{what}: {text}; free some space, or write elsewhere.")
    return text


def require_folder(folder: Path, what: str) -> None:
    """Check that results can be written into a folder, which need not exist yet.

    Raises:
        InputError: it is a file, may not be written, is the folder of a store or a training, or has
            results that evaluate did not write.
    """
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
        content = json.loads((folder / "metrics.json").read_bytes())
    # a training's have its settings
    if not isinstance(content, dict) or "model" not in content or "settings" in content:
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
