"""Ctrl-C and SIGTERM: how they reach a worker, and their exit codes."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from leakdet._exit_codes import INTERRUPTED, TERMINATED


def stop_code(stop: BaseException) -> int:
    """130 or 143. Lightning turns Ctrl-C into exit(1) and SIGTERM into exit(0)."""
    by_hand = isinstance(stop, KeyboardInterrupt) or getattr(stop, "code", None) in (1, INTERRUPTED)
    return INTERRUPTED if by_hand else TERMINATED


def stop_name(stop: BaseException) -> str:
    return "interrupted (Ctrl-C)" if stop_code(stop) == INTERRUPTED else "terminated (SIGTERM)"


@contextmanager
def sigterm_raises() -> Iterator[None]:
    """Let SIGTERM raise `SystemExit`, so that a running trial is ended and queued again."""

    def stop(*_: object) -> None:
        raise SystemExit(TERMINATED)

    if threading.current_thread() is not threading.main_thread():  # a launcher's thread
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
