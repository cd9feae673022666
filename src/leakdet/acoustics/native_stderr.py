"""Keeps what a C library writes to standard error off the screen."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_users = 0
_kept = -1


@contextmanager
def native_stderr_hidden() -> Iterator[None]:
    """Send file descriptor 2 to the null device; threads may overlap.

    Lines that Python prints meanwhile are lost too, so hold it for single calls only.
    """
    global _users, _kept
    with _lock:
        if _users == 0:
            _kept = _redirected()
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0 and _kept >= 0:
                os.dup2(_kept, 2)
                os.close(_kept)


def _redirected() -> int:
    try:
        kept = os.dup(2)
    except OSError:
        return -1  # standard error is closed
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    os.close(null)
    return kept
