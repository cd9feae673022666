"""What all pages share: their templates, and how numbers and words are written."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from leakdet.storage.store import SPLITS

NOT_DEFINED = "n/a"
NBSP = "\u00a0"  # between a number and its unit, which stay on one line


def percent(share: float | None) -> str:
    """`87 %`; one more digit where a whole number would wrongly say 0 or 100.

    >>> [percent(share).replace(NBSP, " ") for share in (0.8712, 0.004, 1.0)]
    ['87 %', '0.4 %', '100 %']
    """
    if share is None:
        return NOT_DEFINED
    near_an_end = 0.0 < share < 0.01 or 0.99 < share < 1.0
    return f"{100 * share:.{1 if near_an_end else 0}f}{NBSP}%"


def percent_range(interval: Sequence[float] | None) -> str:
    """`78 to 93 %`, or nothing."""
    if interval is None:
        return ""
    return f"{percent(interval[0]).removesuffix(NBSP + '%')} to {percent(interval[1])}"


def number(value: float | None) -> str:
    return NOT_DEFINED if value is None else f"{value:.3f}"


def number_range(interval: Sequence[float] | None) -> str:
    return "" if interval is None else f"{interval[0]:.2f} to {interval[1]:.2f}"


def counted(n: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "leak"), counted(2, "leak"), counted(0, "alarm")
    ('1 leak', '2 leaks', '0 alarms')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}".replace(",", "\u202f")


def split_words(name: str) -> str:
    """The name for the recordings of a split or protocol in a sentence.

    >>> split_words("test"), split_words("held_out")
    ('test recordings', 'recordings held out of training')
    """
    return f"{name} recordings" if name in SPLITS else "recordings held out of training"


def flattened(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested settings as dotted names, in order."""
    rows: list[tuple[str, str]] = []
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            rows += flattened(value, f"{prefix}{key}.")
        else:
            rows.append((f"{prefix}{key}", "none" if value is None else str(value)))
    return rows


def filled(template: str, content: Mapping[str, Any], beside: Path | None = None) -> str:
    """The page that a template of `page/`, or of a folder `beside` it, gives with this content."""
    page = Path(__file__).parent / "page"
    environment = Environment(
        loader=FileSystemLoader([page, *([beside] if beside else [])]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["include_raw"] = lambda name: (page / name).read_text(encoding="utf-8")
    texts = (counted, number, number_range, percent, percent_range)
    environment.filters |= {function.__name__: function for function in texts}
    return environment.get_template(template).render(content)
