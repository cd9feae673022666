"""Values of tables as people and other programs write them: times, numbers, seconds of files."""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np

from leakdet.core.locations import AUDIO_SUFFIXES, Span
from leakdet.tables.schema import LABEL, SPAN

# 20.11.2026 is what a spreadsheet of many countries makes of 2026-11-20; 11/20/2026 and
# 20/11/2026 cannot be told apart
DAY_FIRST = ("%d.%m.%Y", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S")
UNKNOWN = np.datetime64("NaT", "s")
ALLOWED = "2026-11-20, 2026-11-20T14:30 or 20.11.2026 14:30"


def time_of(text: str) -> np.datetime64:
    """The time that a text names, one with an offset in UTC; NaT where it is none.

    >>> str(time_of("20.11.2026 14:30")), str(time_of("11/20/2026"))
    ('2026-11-20T14:30:00', 'NaT')
    """
    moment = _moment(text)
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return UNKNOWN if moment is None else np.datetime64(moment, "s")


def iso_text(text: str) -> str | None:
    """The same time in ISO 8601, as exact as it is told, with its offset; None where it is none.

    >>> iso_text("20.11.2026"), iso_text("20.11.2026 14:30"), iso_text("2026-11-20 14:30+01:00")
    ('2026-11-20', '2026-11-20T14:30:00', '2026-11-20T14:30:00+01:00')
    """
    moment = _moment(text)
    return None if moment is None else moment.isoformat()


def _moment(text: str) -> date | None:
    """A date where no hour is told, else a datetime; None where it is neither."""
    for kind in (date, datetime):
        try:
            return kind.fromisoformat(text)
        except ValueError:
            continue
    for form in DAY_FIRST:
        try:
            moment = datetime.strptime(text, form)  # noqa: DTZ007  as told
        except ValueError:
            continue
        return moment.date() if form == DAY_FIRST[0] else moment
    return None


_NUMBER = r"(\d+(?:[.,]\d*)?|[.,]\d+)"
DEGREES = re.compile(
    rf"""(?P<before>[NSEW]?)\s*(?P<sign>[+\-\u2212]?)\s*{_NUMBER}\s*(?:°|º|deg)?\s*
    (?:{_NUMBER}\s*['\u2032\u2019]\s*)?(?:{_NUMBER}\s*(?:["\u2033\u201d]|'')\s*)?
    (?P<side>[NSEW]?)""",
    re.VERBOSE | re.IGNORECASE,
)


def number_of(text: str) -> float:
    """The number that a person wrote, with a decimal comma or as degrees too; NaN where it is none.

    >>> number_of("50,11"), number_of("8.68° W"), number_of("50° 6′ 36″ N"), number_of("1.234,5")
    (50.11, -8.68, 50.11, nan)
    """
    if is_number(text):
        return float(text)
    match = DEGREES.fullmatch(text.strip())
    if match is None:
        return math.nan
    degrees, *parts = (float((match[n] or "0").replace(",", ".")) for n in (3, 4, 5))
    side, is_negative = (match["before"] + match["side"]).upper(), match["sign"] not in ("", "+")
    if any(part >= 60 for part in parts) or len(side + match["sign"]) > 1:
        return math.nan
    value = degrees + parts[0] / 60 + parts[1] / 3600
    return -value if is_negative or side in ("S", "W") else value


def is_number(text: str) -> bool:
    """True of a text that Python reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


_TIME = r"_?(time)?_?(s|secs?|seconds)?"
_BOUNDS = [re.compile(word + _TIME) for word in ("(start|begin|onset)", "(end|stop|offset)")]
# what Raven, BirdNET and opensoundscape call the columns of a table of seconds
OTHER_NAMES = {
    "path": ("begin path", "audio_file", "file", "begin file"),
    LABEL: ("annotation", "common name"),
}
TABLE_SUFFIXES = (".csv", ".tsv", ".txt", ".xlsx", ".xls")
RAVEN_OFFSET = "File Offset (s)"  # in the file; its other times go on over several files
SHORTEST_S = 0.01


def seconds_columns(columns: Sequence[str]) -> list[str]:
    """The two columns by which a table is about seconds of its files; none: it is about files.

    >>> seconds_columns(["path", "Begin Time (s)", "End Time (s)", "label"])
    ['Begin Time (s)', 'End Time (s)']
    >>> seconds_columns(["path", "start", "label"])
    []
    """
    plain = {name: re.sub(r"\W+", "_", name.casefold()).strip("_") for name in columns}
    starts, ends = ([name for name in columns if bound.fullmatch(plain[name])] for bound in _BOUNDS)
    return [starts[0], ends[0]] if starts and ends else []


def is_label_track(fields: Sequence[str]) -> bool:
    """True of the first line of a label track of Audacity: start, end and label, no heading."""
    return len(fields) in (2, 3) and all(map(is_number, fields[:2]))


def sound_beside(table: Path) -> str:
    """The sound beside a table whose name it has before its own ending; "" without one."""
    names = [
        path.name
        for path in table.parent.iterdir()
        if table.name.startswith(f"{path.stem}.") and path.suffix.lower() in AUDIO_SUFFIXES
    ]
    return max(names, key=len, default="")


def from_the_file(row: dict[str, str]) -> dict[str, str]:
    """The row with its seconds counted in the file that it names, also in a table of Raven."""
    start_s, end_s, offset_s = (number_of(row.get(name, "")) for name in (*SPAN, RAVEN_OFFSET))
    if math.isnan(start_s + end_s + offset_s):
        return row
    seconds = f"{offset_s:.10g}", f"{offset_s + end_s - start_s:.10g}"
    return row | dict(zip(SPAN, seconds, strict=True))


class RowError(Exception):
    """The reason why a row gives no recording."""


def span_of(row: Mapping[str, str]) -> Span | None:
    """The seconds that a row is about; None: the whole file. Raises `RowError`.

    >>> span_of({"start_s": "1,5", "end_s": "2"}), span_of({"start_s": "", "end_s": ""})
    (Span(start_s=1.5, end_s=2.0), None)
    """
    start, end = (row.get(name, "") for name in SPAN)
    if not start and not end:
        return None
    start_s, end_s = number_of(start), number_of(end)
    if not (start_s >= 0 and math.isfinite(end_s)):
        raise RowError(f"start {start!r} and end {end!r} are no seconds of a file")
    if end_s - start_s < SHORTEST_S:
        raise RowError(f"its end at {end} s does not come after its start at {start} s")
    return Span(start_s, end_s)
