"""When the new recordings were made, as a column of their table tells it."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Shaped

from leakdet.errors import first_few
from leakdet.storage.time_text import ALLOWED, time_of

TIMES = ("recorded_at", "timestamp", "time", "date")
Groups = Mapping[str, Shaped[np.ndarray, " R"]]


def recorded_times(groups: Groups, recordings: int) -> Shaped[np.ndarray, " R"]:
    """The time of each recording as datetime64; NaT where none is told or understood."""
    _, texts = _column(groups)
    return np.array([time_of(text) for text in texts or [""] * recordings], "datetime64[s]")


def time_notes(groups: Groups) -> list[str]:
    """A remark on times that are not understood."""
    name, texts = _column(groups)
    unread = [text for text in dict.fromkeys(texts) if text and np.isnat(time_of(text))]
    if not unread:
        return []
    return [
        f"{name} {first_few(unread)} is not understood and counts as unknown; write times as "
        f"{ALLOWED}"
    ]


def _column(groups: Groups) -> tuple[str, list[str]]:
    """The first column that tells a time, or else the first that is there, with its texts."""
    columns = [(name, groups[name].astype(str).tolist()) for name in TIMES if name in groups]
    for name, texts in columns:
        if not all(np.isnat(time_of(text)) for text in texts):
            return name, texts
    return columns[0] if columns else ("", [])
