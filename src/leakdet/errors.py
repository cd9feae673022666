"""What leakdet raises when a person can do something about it: one sentence, no traceback at the doors."""

from collections.abc import Sequence


class LeakdetError(Exception):
    """A fault with a remedy. The message says what was found, where, what is allowed and what to do."""


class SettingsError(LeakdetError):
    """A setting is out of range, or settings contradict each other."""


class InputError(LeakdetError):
    """A file, a folder or its contents cannot be used."""


def first_few(names: Sequence[str], most: int = 10) -> str:
    """The first names of a long list and how many more there are, for a message."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
