"""Messages to the user: silent in a program that uses the library, printed by the commands.

Library code logs to `LOG`. A program sees the messages once it configures `logging`, as in
`logging.basicConfig(level="INFO", format="%(message)s")`.
"""

import logging
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

LOG = logging.getLogger("leakdet")
LOG.addHandler(logging.NullHandler())  # without it Python prints warnings by itself
RESULT = 25  # level of what a command was run for, which it prints when it is quiet too
ENTRY = re.compile(r"[a-z][a-z ]{7} (?=\S)")  # `store    …`: what follows is one column


class _Screen(logging.Handler):
    """Information to stdout, warnings to stderr, wherever these lead when the message comes."""

    def __init__(self, all_to_stderr: bool) -> None:
        super().__init__()
        self._all_to_stderr = all_to_stderr

    def emit(self, record: logging.LogRecord) -> None:
        warns = record.levelno >= logging.WARNING
        text = f"{'warning: ' * warns}{record.getMessage()}"
        print_fitted(text, to_stderr=warns or self._all_to_stderr)


def print_fitted(text: str, to_stderr: bool = False) -> None:
    """Print a text; on a terminal, long lines are broken between words.

    A reader that has gone, as `head` goes, ends no work: what is printed from then on is lost.
    """
    stream = sys.stderr if to_stderr else sys.stdout
    if stream.isatty():
        width = shutil.get_terminal_size().columns
        text = "\n".join(_fitted(line, width) for line in text.split("\n"))
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _fitted(line: str, width: int) -> str:
    if len(line) <= width or not line[:1].isalnum():  # no indented line, no table
        return line
    entry = ENTRY.match(line)
    return textwrap.fill(
        line, width, subsequent_indent=" " * entry.end() if entry else "  ",
        break_long_words=False, break_on_hyphens=False, replace_whitespace=False,
    )  # fmt: skip


@contextmanager
def messages_on_screen(quiet: bool = False, all_to_stderr: bool = False) -> Iterator[None]:
    """Print messages inside, and progress too; once, however deep it is nested.

    `quiet` leaves results, warnings and errors.
    """
    LOG.disabled = False  # Hydra disables every logger that exists when it starts
    if on_screen():
        yield
        return
    screen, level = _Screen(all_to_stderr), LOG.level
    LOG.addHandler(screen)
    set_quiet(quiet)
    try:
        yield
    finally:
        LOG.removeHandler(screen)
        LOG.setLevel(level)


def set_quiet(quiet: bool) -> None:
    """Print only results, warnings and errors from now on, or everything."""
    LOG.setLevel(RESULT if quiet else logging.INFO)


def log_result(text: str) -> None:
    """Log what a command was run for: it is printed when the command is quiet too."""
    LOG.log(RESULT, text)


def log_results(texts: Iterable[str]) -> None:
    for text in texts:
        log_result(text)


def on_screen() -> bool:
    """True if a command runs, which prints messages."""
    return any(isinstance(handler, _Screen) for handler in LOG.handlers)


def shows_progress() -> bool:
    """True if progress is shown: in a command that is not quiet."""
    return on_screen() and LOG.isEnabledFor(logging.INFO)
