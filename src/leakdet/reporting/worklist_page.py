"""The work list as a page: sites by rank with filters and a map, and recordings to hear and tick.

One file that asks nothing of any network. Of thousands of sites, the document holds the first rows;
the script makes the others from the JSON in the page when they are asked for.
"""

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from leakdet.errors import first_few
from leakdet.reporting.page_template import filled
from leakdet.reporting.review_page import ReviewPage, review_content
from leakdet.reporting.site_map import Point, SiteMap, site_map
from leakdet.sites.worklist_row import STATES, WorklistRow
from leakdet.storage.atomic import write_whole

GENERATOR = "leakdet worklist"  # marks the page as the command's own
LEVELS = string.digits + string.ascii_uppercase + string.ascii_lowercase
NOT_HEARD = "-"
MEANINGS = {
    "new": "alarms that began lately",
    "persistent": "alarms night after night",
    "ceased": "alarms that stopped",
    "watch": "unusual, too little to dig",
    "quiet": "no alarm, or always the same",
    "silent logger": "sends nothing to judge: a blind spot",
    "broken": "recordings that cannot be read",
}


@dataclass(frozen=True)
class WorklistPage:
    """What the page shows; `rows` are in order of rank, `nights` those of their trends.

    `cautions` say what is too small or unknown, `method` how the list was made. `review` has the
    recordings to hear, of the first ranks; `files` are the tables beside the page.
    """

    title: str
    kicker: str
    sentences: Sequence[str]
    cautions: Sequence[str]
    rows: Sequence[WorklistRow]
    nights: Sequence[date]
    threshold: float | None
    method: Mapping[str, str]
    files: Sequence[str]
    review: ReviewPage
    review_of_site: Mapping[str, int] = field(default_factory=dict)  # the place of its recording


def write_worklist_page(path: Path, page: WorklistPage) -> None:
    """Write the page atomically."""
    # Names of sites and files may hold bytes that are no UTF-8.
    write_whole(path, render_worklist(page), errors="backslashreplace")


def render_worklist(page: WorklistPage) -> str:
    """The page as text."""
    chart = site_map(page.rows)
    states = Counter(row.state for row in page.rows)
    return filled(
        "worklist.html.j2",
        {
            "generator": GENERATOR,
            "title": page.title,
            "kicker": page.kicker,
            "sentences": page.sentences,
            "cautions": page.cautions,
            "states": [(state, states[state], MEANINGS[state]) for state in STATES],
            "loggers": _loggers(page.rows),
            "map": chart,
            "has": _shown_columns(page.rows),
            "method": page.method,
            "files": page.files,
            "sites": _json(page, chart),
            "review": review_content(page.review),
        },
    )


def trend_text(trend: Sequence[float | None]) -> str:
    """A letter for the score of each night, in 62 steps from 0 to z; - where it was not heard.

    >>> trend_text([0.0, None, 0.5, 1.0])
    '0-Uz'
    """
    most = len(LEVELS) - 1
    return "".join(
        NOT_HEARD if score is None else LEVELS[round(min(1.0, max(0.0, score)) * most)]
        for score in trend
    )


def fault_kind(fact: str) -> str:
    """The kind of a fact of a logger, which begins with it.

    >>> fault_kind("missing for 3 nights"), fault_kind("other rate: 8000 Hz, before 16000 Hz")
    ('missing', 'other rate')
    """
    return re.split(r":| for | in | on ", fact, maxsplit=1)[0]


def _loggers(rows: Sequence[WorklistRow]) -> list[dict[str, Any]]:
    """What is wrong with loggers, the most frequent first, with the sites of the first ranks."""
    sites: dict[str, dict[str, None]] = {}
    for row in rows:
        for fact in row.health:
            sites.setdefault(fault_kind(fact), {})[row.site] = None
    return [
        {"fault": kind, "count": len(of), "which": first_few(list(of))}
        for kind, of in sorted(sites.items(), key=lambda item: -len(item[1]))
    ]


def _shown_columns(rows: Sequence[WorklistRow]) -> dict[str, bool]:
    """Which columns the table needs: those in which a row has a value."""
    names = ("level_dbfs", "chance", "worth", "leak_share", "familiarity", "since")
    return {name: any(getattr(row, name) is not None for row in rows) for name in names}


def _json(page: WorklistPage, chart: SiteMap | None) -> dict[str, Any]:
    points: Sequence[Point | None] = chart.points if chart else [None] * len(page.rows)
    sites = [
        _fields(row, point, page.review_of_site.get(row.site))
        for row, point in zip(page.rows, points, strict=True)
    ]
    return {
        "states": STATES,
        "levels": LEVELS,
        "threshold": page.threshold,
        "nights": [night.isoformat() for night in (*page.nights[:1], *page.nights[-1:])],
        "fields": list(sites[0]) if sites else [],
        "rows": [list(site.values()) for site in sites],
    }


def _fields(row: WorklistRow, point: Point | None, review: int | None) -> dict[str, Any]:
    """A row as the script reads it; the names are its own."""
    low, high = row.leak_share_interval or (None, None)
    return {
        "site": row.site,
        "state": STATES.index(row.state),
        "why": row.why,
        "nights": row.nights,
        "leakNights": row.leak_nights,
        "since": None if row.since is None else row.since.isoformat(),
        "score": _short(row.score, 3),
        "medianScore": _short(row.median_score, 3),
        "level": _short(row.level_dbfs, 1),
        "medianLevel": _short(row.median_level_dbfs, 1),
        "familiarity": _short(row.familiarity, 2),
        "trend": trend_text(row.trend),
        "health": list(row.health),
        "chance": _short(row.chance, 3),
        "worth": _short(row.worth, 0),
        "share": _short(row.leak_share, 3),
        "low": _short(low, 3),
        "high": _short(high, 3),
        "point": point,
        "about": " · ".join(f"{name} {value}" for name, value in row.columns.items() if value),
        "review": review,
    }


def _short(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
