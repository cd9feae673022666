"""Errors that a user can act on: commands print their one sentence instead of a traceback."""

from collections.abc import Sequence


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
