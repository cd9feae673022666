"""Range checks whose messages name the setting, its value and what is allowed; and settings read back from JSON."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from leakdet.errors import SettingsError

T = TypeVar("T")

# OmegaConf's mark for "the user must give this"; spelt out so that settings need no OmegaConf
MISSING: Any = "???"


def require(ok: bool, name: str, value: object, allowed: str) -> None:
    if not ok:
        raise SettingsError(f"{name}={value!r} is not allowed: it must be {allowed}.")


def one_of(name: str, value: str, allowed: Sequence[str]) -> None:
    require(value in allowed, name, value, "one of " + ", ".join(allowed))


def share(name: str, value: int | float) -> None:
    require(0.0 <= value <= 1.0, name, value, "between 0 and 1")


def at_least(name: str, value: int | float, least: int | float) -> None:
    require(math.isfinite(value) and value >= least, name, value, f"a number of at least {least:g}")


def from_dict(kind: type[T], values: Mapping[str, Any], where: str) -> T:
    """A settings dataclass from stored plain values, strictly: `where` names the file in the error."""
    known = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    unknown, missing = sorted(values.keys() - known), sorted(known - values.keys())
    if unknown or missing:
        raise SettingsError(
            f"{where}: its {kind.__name__} has unknown fields {unknown} and lacks {missing}; "
            "the file was written by another version of leakdet."
        )
    return kind(**values)
