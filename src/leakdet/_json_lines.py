"""Messages as JSON, one object on a line, for whoever collects logs (`--log json`, `log=json`)."""

import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

# `store    …`: what follows is one column
ENTRY = re.compile(r"(?=[a-z ]{8} \S)(left out|[a-z]{8}|[a-z]+ +) ")


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
