"""Messages to the user: silent in a program that uses the library, printed by the commands.

Library code logs to `LOG`. A program sees the messages once it configures `logging`, as in
`logging.basicConfig(level="INFO", format="%(message)s")`.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

LOG = logging.getLogger("leakdet")
LOG.addHandler(logging.NullHandler())  # without it Python prints warnings by itself


class _Screen(logging.Handler):
    """Information to stdout, warnings to stderr, wherever these lead when the message comes."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            print(f"warning: {record.getMessage()}", file=sys.stderr, flush=True)
        else:
            print(record.getMessage(), flush=True)


@contextmanager
def messages_on_screen() -> Iterator[None]:
    """Print messages inside, and progress too; once, however deep it is nested."""
    LOG.disabled = False  # Hydra disables every logger that exists when it starts
    if on_screen():
        yield
        return
    screen, level = _Screen(), LOG.level
    LOG.addHandler(screen)
    LOG.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOG.removeHandler(screen)
        LOG.setLevel(level)


def on_screen() -> bool:
    """Whether messages are printed: progress bars are drawn only then."""
    return any(isinstance(handler, _Screen) for handler in LOG.handlers)
