"""Numbers in plain words: shares, intervals, counts, and what is undefined."""

from collections.abc import Mapping, Sequence
from typing import Any

NOT_DEFINED = "n/a"


def percent(share: float | None) -> str:
    """`87 %`; a tenth more where whole numbers would say 0 or 100 of what is neither.

    >>> percent(0.8712), percent(0.004), percent(1.0)
    ('87 %', '0.4 %', '100 %')
    """
    if share is None:
        return NOT_DEFINED
    near_an_end = 0.0 < share < 0.01 or 0.99 < share < 1.0
    return f"{100 * share:.1f} %" if near_an_end else f"{100 * share:.0f} %"


def percent_range(interval: Sequence[float] | None) -> str:
    """`78 to 93 %`, or nothing."""
    if interval is None:
        return ""
    low, high = (percent(end).removesuffix(" %") for end in interval)
    return f"{low} to {high} %"


def number(value: float | None) -> str:
    return NOT_DEFINED if value is None else f"{value:.3f}"


def number_range(interval: Sequence[float] | None) -> str:
    return "" if interval is None else f"{interval[0]:.2f} to {interval[1]:.2f}"


def counted(n: int, one: str, many: str | None = None) -> str:
    """A number with its noun.

    >>> counted(1, "leak"), counted(2, "leak"), counted(0, "alarm")
    ('1 leak', '2 leaks', '0 alarms')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}".replace(",", "\u202f")


def flattened(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested settings as dotted names, in order."""
    rows: list[tuple[str, str]] = []
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            rows += flattened(value, f"{prefix}{key}.")
        else:
            rows.append((f"{prefix}{key}", "none" if value is None else str(value)))
    return rows
