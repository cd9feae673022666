"""Times as tables tell them: ISO 8601, or the day first as spreadsheets of many countries write."""

from datetime import UTC, date, datetime

import numpy as np

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
