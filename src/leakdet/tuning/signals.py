"""Ctrl-C and SIGTERM: how they reach a worker, and what they are called afterwards."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED, TERMINATED = 130, 143


class Stopped(Exception):  # noqa: N818  what a person or a scheduler did is no error
    """Ctrl-C or SIGTERM, with the exit code that says which."""

    def __init__(self, code: int) -> None:
        super().__init__("interrupted" if code == INTERRUPTED else "terminated")
        self.code = code


def stop_code(stop: BaseException) -> int:
    """Lightning turns Ctrl-C into exit(1) and SIGTERM into exit(0)."""
    if isinstance(stop, Stopped):
        return stop.code
    by_hand = isinstance(stop, KeyboardInterrupt) or getattr(stop, "code", None) in (1, INTERRUPTED)
    return INTERRUPTED if by_hand else TERMINATED


def stop_name(stop: BaseException) -> str:
    return "interrupted (Ctrl-C)" if stop_code(stop) == INTERRUPTED else "terminated (SIGTERM)"


@contextmanager
def sigterm_raises() -> Iterator[None]:
    """SIGTERM ends the work like Ctrl-C does, so that a trial that runs is ended and queued again."""

    def stop(*_: object) -> None:
        raise SystemExit(TERMINATED)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
