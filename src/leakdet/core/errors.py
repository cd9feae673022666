"""Errors of the user, each a sentence with its remedy, and the sentence for a full memory."""

import json
import re
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote


class LeakdetError(Exception):
    """The message names value and place, what is allowed, and what to do."""


class SettingsError(LeakdetError):
    """A setting is out of range, or settings contradict each other."""


class InputError(LeakdetError):
    """A file, a folder or its contents cannot be used."""


def counted(n: int, noun: str) -> str:
    """A number of things in words.

    >>> counted(1, "file"), counted(2, "file"), counted(0, "recording")
    ('1 file', '2 files', '0 recordings')
    """
    return f"{n} {noun}{'' if n == 1 else 's'}"


def first_few(names: Sequence[str], most: int = 10) -> str:
    """The first names of a long list and how many more there are, for a message."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def install_command(extra: str) -> str:
    """The command that adds an extra to this installation, also to one from a checkout."""
    try:
        told = distribution("leakdet").read_text("direct_url.json")
    except PackageNotFoundError:
        told = None
    place = unquote(json.loads(told or "{}").get("url", "").removeprefix("file://"))
    return f"pip install '{place if Path(place or '-').exists() else 'leakdet'}[{extra}]'"


def require_extra(extra: str, modules: Sequence[str]) -> None:
    """Raise `InputError`, with the command that installs them, where modules of an extra lack."""
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise InputError(
            f"not installed: {', '.join(missing)}, of the extra {extra}: {install_command(extra)}"
        )


TEXTS = ("out of memory", "can't allocate memory", "_ALLOC_FAILED")
WANTED = re.compile(r"(?:[Tt]ried to allocate|Unable to allocate) ([\d.]+) ?(\w+)")
OF_DEVICE = re.compile(r"GPU (\d+) has a total capacity of ([\d.]+ \w+) of which ([\d.]+ \w+)")


def memory_sentence(error: BaseException) -> str | None:
    """`out of memory …` with the numbers that the error has; None for an error of another kind.

    Known by name and text where its class is torch's, so that nobody imports torch for this.
    """
    text = str(error)
    named = type(error).__name__ == "OutOfMemoryError" or any(word in text for word in TEXTS)
    of_torch = isinstance(error, RuntimeError) and named
    if not (of_torch or isinstance(error, MemoryError)):
        return None
    sentence, wanted, device = "out of memory", WANTED.search(text), OF_DEVICE.search(text)
    if device:
        sentence += f" on GPU {device[1]}, which has {device[2]}, {device[3]} of them free"
    elif "CU" in text:
        sentence += " on the GPU"
    return sentence + (f": {_size(*wanted.groups())} more were wanted" if wanted else "")


def _size(number: str, unit: str) -> str:
    return f"{int(number) / 1e9:.2f} GB" if unit == "bytes" else f"{number} {unit}"
