"""An exclusive lock among processes, which dies with its holder."""

from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_UN, flock
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock among processes; the system releases it when the holder dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        flock(file, LOCK_EX)
        try:
            yield
        finally:
            flock(file, LOCK_UN)
