"""Processes of one run on one machine: their number, what they share, and their common end.

The first process decides, and its children inherit the decision.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from leakdet.errors import SettingsError

PARENT = "LEAKDET_PARENT"  # environment variable: the process that starts others
LOOK_EVERY_S = 0.5
GRACE_S = 30.0  # to leave everything whole


def is_child() -> bool:
    """True if this process was started by the first process of the run on this machine."""
    return int(os.environ.get("LOCAL_RANK") or 0) > 0


def parent_decision(name: str) -> str | None:
    """The value that the parent shared under `name`; None in the first process."""
    return os.environ.get(name) if is_child() else None


def share_decision(name: str, value: str) -> str:
    """Make `value` known under `name` to processes started from now on, and return it."""
    os.environ[name] = value
    return value


@contextmanager
def named_to_children() -> Iterator[None]:
    """Let processes that are started inside know this one, for `follow_parent`."""
    before = os.environ.get(PARENT)
    os.environ[PARENT] = str(os.getpid())
    try:
        yield
    finally:
        os.environ.pop(PARENT)
        if before is not None:
            os.environ[PARENT] = before


def follow_parent(parent: int | None = None) -> None:
    """Stop this process, as by SIGTERM, soon after `parent`, which started it, has ended.

    A process that was killed cannot tell its children. None: the one that named itself to this
    one, if any did. Where the stop does not come about, as in a call that waits for other
    processes, this process ends without it.
    """
    started_by = parent or int(os.environ.get(PARENT, 0))
    if not started_by:
        return

    def watch() -> None:
        while os.getppid() == started_by:
            time.sleep(LOOK_EVERY_S)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE_S)
        os._exit(128 + signal.SIGTERM)

    threading.Thread(target=watch, daemon=True, name="follow-parent").start()


def check_count(name: str, number: int, per_core: int = 4, always: int = 1) -> None:
    """Check a number of processes or threads against the cores of this machine.

    Hundreds of them would take the machine down before anything else is looked at. `always` are
    allowed on any machine.

    Raises:
        SettingsError: it is negative, or far more than there are cores.
    """
    cores = os.cpu_count() or 1
    most = max(always, per_core * cores)
    if not 0 <= number <= most:
        raise SettingsError(
            f"{name}={number}: allowed are at most {most} on the {cores} cores of this machine."
        )
