"""Differences between two sets of settings as plain values, as files keep them."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple


class Difference(NamedTuple):
    """A setting by its dotted name, and both of its values; None where one set lacks it."""

    name: str
    stored: Any
    now: Any

    def __str__(self) -> str:
        return f"{self.name}: {self.stored} / {self.now}"


def differences(
    stored: Mapping[str, Any], now: Mapping[str, Any], prefix: str = ""
) -> Iterator[Difference]:
    """Every setting that differs, in the order of names.

    >>> [str(d) for d in differences({"a": {"b": 1}, "c": 2}, {"a": {"b": 3}, "c": 2})]
    ['a.b: 1 / 3']
    """
    for key in sorted(stored.keys() | now.keys()):
        old, new = stored.get(key), now.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from differences(old, new, f"{prefix}{key}.")
        elif old != new:
            yield Difference(f"{prefix}{key}", old, new)
