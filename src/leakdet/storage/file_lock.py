"""An exclusive lock among processes, which dies with its holder."""

from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock
from pathlib import Path


@contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[None]:
    """Hold an exclusive lock among processes; the system releases it when the holder dies.

    Raises:
        BlockingIOError: `wait` is false, and another process holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        flock(file, LOCK_EX if wait else LOCK_EX | LOCK_NB)
        try:
            yield
        finally:
            flock(file, LOCK_UN)
