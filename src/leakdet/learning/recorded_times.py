"""When the new recordings were made, as a column of their table tells it."""

from collections.abc import Mapping
from datetime import UTC, datetime

import numpy as np
from jaxtyping import Shaped

from leakdet.errors import first_few

TIMES = ("recorded_at", "timestamp", "time", "date")
# 20.11.2026 is what a spreadsheet of many countries makes of 2026-11-20; 11/20/2026 and
# 20/11/2026 cannot be told apart
DAY_FIRST = ("%d.%m.%Y", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S")
UNKNOWN = np.datetime64("NaT", "s")
Groups = Mapping[str, Shaped[np.ndarray, " R"]]


def recorded_times(groups: Groups, recordings: int) -> Shaped[np.ndarray, " R"]:
    """The time of each recording as datetime64; NaT where none is told or understood."""
    _, texts = _column(groups)
    return np.array([_time(text) for text in texts or [""] * recordings], "datetime64[s]")


def time_notes(groups: Groups) -> list[str]:
    """A remark on times that are not understood."""
    name, texts = _column(groups)
    unread = [text for text in dict.fromkeys(texts) if text and np.isnat(_time(text))]
    if not unread:
        return []
    return [
        f"{name} {first_few(unread)} is not understood and counts as unknown; write times as "
        "2026-11-20, 2026-11-20T14:30 or 20.11.2026 14:30"
    ]


def _column(groups: Groups) -> tuple[str, list[str]]:
    """The first column that tells a time, or else the first that is there, with its texts."""
    columns = [(name, groups[name].astype(str).tolist()) for name in TIMES if name in groups]
    for name, texts in columns:
        if not all(np.isnat(_time(text)) for text in texts):
            return name, texts
    return columns[0] if columns else ("", [])


def _time(text: str) -> np.datetime64:
    """The time that a text names, one with an offset in UTC; NaT where it is none."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return _day_first(text)
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return np.datetime64(moment, "s")


def _day_first(text: str) -> np.datetime64:
    for form in DAY_FIRST:
        try:
            return np.datetime64(datetime.strptime(text, form), "s")  # noqa: DTZ007  as told
        except ValueError:
            continue
    return UNKNOWN
