"""Settings as dataclass fields: declared with a sentence and a range, checked, compared."""

import math
import re
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, TypeVar, cast

from leakdet.core.errors import SettingsError

T = TypeVar("T")
Bound = int | float | None
# settings that may name code of one's own, and what such a name is
OWN_CODE = ("network.name", "loss.name", "callbacks.extra")
OWN_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")

# OmegaConf's mark for "the user must give this"; spelt out so that settings need no OmegaConf
MISSING: Any = "???"


def is_own(name: str) -> bool:
    """True if `name` names a class or function of the user, `package.module:Name`."""
    return OWN_NAME.fullmatch(name) is not None


@dataclass(frozen=True)
class Allowed:
    """The values that a setting may take: listed ones, or finite numbers within bounds.

    `or_own` is the kind of user code, Class or function, that may be named besides the listed ones.
    """

    one_of: tuple[str, ...] = ()
    or_own: str = ""
    at_least: Bound = None
    above: Bound = None
    at_most: Bound = None
    below: Bound = None

    def __contains__(self, value: Any) -> bool:
        if self.one_of:
            return value in self.one_of or bool(self.or_own and is_own(value))
        return (
            math.isfinite(value)
            and (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.at_most is None or value <= self.at_most)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        if self.one_of:
            own = f", or package.module:{self.or_own} of your own" if self.or_own else ""
            return "one of " + ", ".join(self.one_of) + own
        bounds = {
            "of at least": self.at_least,
            "above": self.above,
            "at most": self.at_most,
            "below": self.below,
        }
        given = (f"{word} {bound:g}" for word, bound in bounds.items() if bound is not None)
        return "a number " + " and ".join(given)


def doc(
    default: T,
    meaning: str,
    *,
    one_of: tuple[str, ...] = (),
    or_own: str = "",
    at_least: Bound = None,
    above: Bound = None,
    at_most: Bound = None,
    below: Bound = None,
    names: type | None = None,
) -> T:
    """A dataclass field whose metadata has its `meaning`, one sentence, and what is `allowed`.

    `check_ranges` reads it in `__post_init__`. `names`, list or dict, says that people give names
    of their own here, one or such a collection of them, with any letters.
    """
    allowed = Allowed(one_of, or_own, at_least, above, at_most, below)
    limits = None if allowed == Allowed() else allowed
    metadata = {"meaning": meaning, "allowed": limits, "names": names}
    if isinstance(default, list | dict):
        return cast(T, field(default_factory=lambda: copy(default), metadata=metadata))
    return field(default=default, metadata=metadata)


def check_ranges(settings: Any, prefix: str = "") -> None:
    """Check every field of a settings dataclass against its own range; None is always allowed."""
    for known in fields(settings):
        allowed, value = known.metadata.get("allowed"), getattr(settings, known.name)
        if allowed is not None and value is not None:
            require(value in allowed, prefix + known.name, value, str(allowed))


def with_point(text: str) -> str:
    """A number with a decimal comma as one with a point; any other text as it is.

    One that may be meant for thousands stays, too.

    >>> with_point("0,05"), with_point("2,5"), with_point("2,500"), with_point("1,2,3")
    ('0.05', '2.5', '2,500', '1,2,3')
    """
    is_decimal = re.fullmatch(r"[+-]?\d*,\d+", text)
    is_open = re.fullmatch(r"[+-]?[1-9]\d{0,2},\d{3}", text)
    return text.replace(",", ".") if is_decimal and not is_open else text


def require(ok: bool, name: str, value: object, allowed: str) -> None:
    """Raise `SettingsError` for `name` unless `ok`; `allowed` completes the words "it must be"."""
    if not ok:
        raise SettingsError(f"{name}={value!r} is not allowed: it must be {allowed}.")


def from_dict(kind: type[T], values: Mapping[str, Any], where: str) -> T:
    """Build a settings dataclass from stored plain values; `where` names the file in the error."""
    known = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    unknown, missing = sorted(values.keys() - known), sorted(known - values.keys())
    if unknown or missing:
        raise SettingsError(
            f"{where}: its {kind.__name__} has unknown fields {unknown} and lacks {missing}; "
            "the file was written by another version of leakdet."
        )
    try:
        return kind(**values)
    except SettingsError as error:
        raise SettingsError(f"{where}: {error}") from error


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
