"""Rows of predict for a few sites over many nights."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any

from leakdet.sites.states import WorklistRow
from leakdet.sites.worklist import make_worklist

FIRST = date(2026, 5, 1)  # the morning of the first night
TODAY = date(2026, 7, 1)
Rows = list[dict[str, Any]]


def night_rows(
    site: str,
    scores: Sequence[float | None],
    levels: Sequence[float] | float = -70.0,
    hour: int = 3,
    **columns: Any,
) -> Rows:
    """A row for each night of a site; no score: it was not heard in that night."""
    rows = []
    for night, score in enumerate(scores):
        if score is None:
            continue
        made = datetime.combine(FIRST, datetime.min.time()) + timedelta(days=night, hours=hour)
        level = levels if isinstance(levels, float) else levels[night]
        rows.append(row(site, made, score, level, **columns))
    return rows


def row(site: str, made: datetime, score: float, level: float = -70.0, **columns: Any) -> dict:
    """A row of predict, as texts of a CSV have it."""
    return {
        "path": f"{made:%Y%m%d}/{site}_{made:%H%M}.wav",
        "site": site,
        "recorded_at": made.isoformat(),
        "decision": "leak" if score >= 0.5 else "no_leak",
        "reason": "",
        "leak_prob": f"{score}",
        "source_rate_hz": "16000",
        "flags": "",
        "familiarity": "0.4",
        "model": "abc",
        "error": "",
        "quiet_level_dbfs": f"{level}",
        **columns,
    }


def network(nights: int, sites: int = 25) -> Rows:
    """Sites that are always quiet."""
    return [
        one
        for site in range(sites)
        for one in night_rows(f"quiet {site}", [0.1 + site / 500] * nights, -70.0 + site / 10)
    ]


def only(rows: Rows, site: str, **more: Any) -> WorklistRow:
    """The row of one site in the work list of these rows."""
    worklist = make_worklist(rows, today=TODAY, **more)
    (found,) = [one for one in worklist.rows if one.site == site]
    return found
