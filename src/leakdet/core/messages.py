"""Messages to the user: silent in a program that uses the library, printed by the commands.

Library code logs to `LOG`. A program sees the messages once it configures `logging`, as in
`logging.basicConfig(level="INFO", format="%(message)s")`.
"""

import io
import json
import logging
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any


def prepare_streams() -> None:
    """Let no character end a command, and no stream that its caller has closed.

    Names of files may hold any bytes: a UTF-8 stream writes them as they are. What another encoding
    lacks is written as an escape.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed before the start
            stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
            setattr(sys, name, stream)
        if isinstance(stream, io.TextIOWrapper):
            utf8 = stream.encoding.replace("-", "").lower() == "utf8"
            stream.reconfigure(errors="surrogateescape" if utf8 else "backslashreplace")


# `store    …`: a kind padded to a column, and what follows; a sentence begins with no such column
ENTRY = re.compile(r"(?=[a-z ]{8} \S)(left out|compared|[a-z]+ +) ")


def asked_for(words: Sequence[str]) -> bool:
    """True if a command line asks for JSON, of plain arguments or of settings.

    >>> asked_for(["--log", "json"]), asked_for(["log=json"]), asked_for(["json"])
    (True, True, False)
    """
    joined = bool({"--log=json", "log=json"} & set(words))
    return joined or ("--log", "json") in pairwise(words)


def json_lines(level: str, text: str, kind: str = "", **more: Any) -> Iterator[str]:
    r"""A message as lines of JSON: `time` (UTC), `level`, `kind`, `message`, and `more`.

    The kind of an entry such as `store    …` is its first word; each entry of a text is an object
    of its own. All else is one, with line breaks inside its message. Only ASCII is written.

    >>> lines = list(json_lines("info", "store    a: 3 recordings\nlabels   leak"))
    >>> [json.loads(line)["kind"] for line in lines]
    ['store', 'labels']
    """
    time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    for own_kind, message in [(kind, text)] if kind else _entries(text):
        told = {"time": time, "level": level, "kind": own_kind, "message": message}
        yield json.dumps(told | more)


def _entries(text: str) -> list[tuple[str, str]]:
    """The entries of a text, each with its kind; a text of none is one of the kind `text`."""
    found: list[tuple[str, str]] = []
    for line in text.strip("\n").split("\n"):
        entry = ENTRY.match(line)
        if entry:
            found.append((entry[1].strip(), line[entry.end() :].strip()))
        elif found and line.startswith(" " * 9):  # goes on below its entry
            found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}")
        else:
            return [("text", text.strip("\n"))]
    return found


LOG = logging.getLogger("leakdet")
LOG.addHandler(logging.NullHandler())  # without it Python prints warnings by itself
RESULT = 25  # level of what a command was run for, which it prints when it is quiet too
DETAIL = 15  # level of what stands in the report or a file too; printed by log=full, and as JSON
LEVELS = {logging.DEBUG: "debug", DETAIL: "info", logging.INFO: "info", RESULT: "result",
          logging.WARNING: "warning", logging.ERROR: "error"}  # fmt: skip


class _Screen(logging.Handler):
    """Information to stdout, warnings to stderr, wherever these lead when the message comes.

    As JSON, everything goes to stderr, and what a message brings as `extra={"facts": {…}}` too.
    """

    def __init__(self, all_to_stderr: bool = False, as_json: bool = False) -> None:
        super().__init__()
        self._all_to_stderr, self.as_json = all_to_stderr, as_json

    def emit(self, record: logging.LogRecord) -> None:
        warns, text = record.levelno >= logging.WARNING, record.getMessage()
        if self.as_json:
            kind = {} if record.name == LOG.name else {"kind": record.name}
            _print_json(
                LEVELS.get(record.levelno, "error"), text, **kind, **getattr(record, "facts", {})
            )
        else:
            text = f"{'warning: ' * warns}{text}"
            print_fitted(text, to_stderr=warns or self._all_to_stderr)


def _print_json(level: str, text: str, kind: str = "", **more: Any) -> None:
    for line in json_lines(level, text, kind, **more):
        _print(line, to_stderr=True)


def print_fitted(text: str, to_stderr: bool = False) -> None:
    """Print a text; on a terminal, long lines are broken between words."""
    stream = sys.stderr if to_stderr else sys.stdout
    if stream.isatty():
        width = shutil.get_terminal_size().columns
        text = "\n".join(_fitted(line, width) for line in text.split("\n"))
    _print(text, to_stderr)


def _print(text: str, to_stderr: bool) -> None:
    """Print a text. A reader that has gone, as `head` goes, ends no work: the rest is lost."""
    stream = sys.stderr if to_stderr else sys.stdout
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def print_status(text: str, level: str = "info", kind: str = "text", **more: Any) -> None:
    """Print on stderr what is no message of the work: progress, an error, how a command ends.

    As JSON it gets its level, its kind and `more`; else the text says all.
    """
    if logs_json():
        _print_json(level, text, kind, **more)
    else:
        print_fitted(text, to_stderr=True)


def _fitted(line: str, width: int) -> str:
    if len(line) <= width or not line[:1].isalnum():  # no indented line, no table
        return line
    entry = ENTRY.match(line)
    return textwrap.fill(
        line, width, subsequent_indent=" " * entry.end() if entry else "  ",
        break_long_words=False, break_on_hyphens=False, replace_whitespace=False,
    )  # fmt: skip


@contextmanager
def messages_on_screen(log: str = "normal", all_to_stderr: bool = False) -> Iterator[bool]:
    """Print messages inside as `set_log` says, and progress too; once, however deep it is nested.

    Gives True for the outermost.
    """
    LOG.disabled = False  # Hydra disables every logger that exists when it starts
    if on_screen():
        yield False
        return
    screen, level = _Screen(all_to_stderr), LOG.level
    LOG.addHandler(screen)
    set_log(log)
    try:
        yield True
    finally:
        set_json(False)
        LOG.removeHandler(screen)
        LOG.setLevel(level)


def messages_if(shown: bool | None) -> AbstractContextManager[object]:
    """Print messages and progress inside, if so; None: in an interactive session."""
    interactive = hasattr(sys, "ps1") if shown is None else shown
    return messages_on_screen() if interactive else nullcontext()


def set_json(as_json: bool) -> None:
    """Print JSON from now on, also of what other libraries warn of, or text.

    Hydra takes all handlers off the root logger, leaves it errors alone and disables the loggers
    that exist: call it again then.
    """
    screen, root = _screen(), logging.getLogger()
    if screen is None:
        return
    screen.as_json = as_json
    logging.captureWarnings(as_json)
    for handler in [own for own in root.handlers if isinstance(own, _Screen)]:
        root.removeHandler(handler)
    if as_json:
        python = logging.getLogger("py.warnings")
        python.disabled = False
        python.setLevel(logging.WARNING)
        others = _Screen(as_json=True)
        others.addFilter(lambda record: record.name.partition(".")[0] != LOG.name)
        root.addHandler(others)


SHOWN = {"normal": logging.INFO, "full": DETAIL, "quiet": RESULT, "json": DETAIL}


def set_log(log: str) -> None:
    """Print as the setting `log` says.

    quiet: results, warnings and errors; normal: what is done too; full: also details, which stand
    in the report; json: all, one object a line.
    """
    LOG.setLevel(SHOWN[log])
    set_json(log == "json")


def log_detail(text: str) -> None:
    """Log what a reader of the report finds there."""
    LOG.log(DETAIL, text)


def log_result(text: str) -> None:
    """Log what a command was run for: it is printed when the command is quiet too."""
    LOG.log(RESULT, text)


def log_results(texts: Iterable[str]) -> None:
    for text in texts:
        log_result(text)


def _screen() -> _Screen | None:
    return next((handler for handler in LOG.handlers if isinstance(handler, _Screen)), None)


def on_screen() -> bool:
    """True if a command runs, which prints messages."""
    return _screen() is not None


def logs_json() -> bool:
    """True if a command runs that prints JSON."""
    screen = _screen()
    return screen is not None and screen.as_json


def shows_progress() -> bool:
    """True if progress is shown: in a command that is not quiet."""
    return on_screen() and LOG.isEnabledFor(logging.INFO)
