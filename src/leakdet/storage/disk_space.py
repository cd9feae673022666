"""The space that a work will take on its disk, compared with what is free before it begins."""

import shutil
from pathlib import Path

from leakdet.errors import InputError


def require_space(place: Path, need_bytes: int, what: str) -> str:
    """Check that the disk of `place`, which need not exist yet, has room for about so many bytes.

    Returns how much will be written and how much is free, for the user. `what` names the work in
    the error.

    Raises:
        InputError: there is less.
    """
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    text = f"about {megabytes(need_bytes)} will be written, and its disk has {megabytes(free)} left"
    if need_bytes > free:
        raise InputError(f"{what}: {text}; free some space, or write elsewhere.")
    return text


def megabytes(count: int) -> str:
    """`1.0 MB`; large numbers in GB."""
    return f"{count / 1e6:.1f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"
