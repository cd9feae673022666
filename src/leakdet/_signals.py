"""Signals that ask a command to stop, as an exception, so that it can leave everything whole."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# A terminal that closed, Slurm's notice before its time limit, and kill; Ctrl-C raises already.
STOPPING = (signal.SIGHUP, signal.SIGUSR1, signal.SIGTERM)


class Stopped(SystemExit):
    """A signal asked the command to stop; its code is 128 and the signal's number."""

    def __init__(self, number: int) -> None:
        self.number, self.exit_code = number, 128 + number
        super().__init__(self.exit_code)


def signal_name(code: int) -> str:
    """The signal behind an exit code above 128, as SIGTERM."""
    return signal.Signals(code - 128).name


def is_ignored(number: int) -> bool:
    """True if the caller ignores a signal, as nohup ignores SIGHUP: then it stays ignored."""
    return signal.getsignal(number) is signal.SIG_IGN


@contextmanager
def signals_raise() -> Iterator[None]:
    """Raise `Stopped` inside, once; outside, signals do what they did. Main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [number for number in STOPPING if not is_ignored(number)]

    def stop(number: int, frame: FrameType | None) -> None:
        for other in numbers:  # a second one must not disturb what the first one has to finish
            signal.signal(other, lambda *_: None)
        raise Stopped(number)

    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
