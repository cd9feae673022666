"""The page of the work list, its map, and the tables beside it.

The map is equirectangular: degrees of longitude are shortened by the cosine of the middle latitude,
which keeps shapes as they are over the extent of a water network.

The page is one file that asks nothing of any network. Of thousands of sites, it holds the first
rows; the script makes the others from the JSON in the page when they are asked for.
"""

import json
import math
import re
import string
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

import leakdet
from leakdet.core.errors import first_few
from leakdet.core.files import write_whole
from leakdet.reporting.pages import filled
from leakdet.reporting.review_page import ReviewPage, review_content
from leakdet.sites.states import LISTS, STATES, ListName, WorklistRow
from leakdet.storage.model_card import ModelVerdict
from leakdet.tables.read import read_table
from leakdet.tables.workbooks import is_workbook, write_workbook
from leakdet.tables.write import write_csv

WIDTH = 1000.0  # of the drawing, in its own units
LEAST_HEIGHT, MOST_HEIGHT = 350.0, 1000.0
MARGIN = 40.0
LEAST_EXTENT_M = 200.0  # of a network that is one point
M_PER_DEGREE = 111_195.0  # of latitude, on a sphere of 6371 km
MOST_NUMBERS = 30  # ranks that are written beside their dots
CROSS = "m-7-7l14 14m0-14l-14 14"
PLUS = "m-9 0h18m-9-9v18"
DOT = "h0"  # a line without length, of which the round or square caps are drawn
GLYPHS = {"silent logger": CROSS, "broken": PLUS}
# from the one at the bottom to the one on top
DRAWN = ("quiet", "ceased", "silent logger", "broken", "watch", "persistent", "new")

Point = tuple[float, float]


@dataclass(frozen=True)
class Marks:
    """All sites of one state as one path: the same glyph at each of them."""

    state: str
    count: int
    glyph: str
    path: str


@dataclass(frozen=True)
class Number:
    """A rank written beside its dot."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class SiteMap:
    """The drawing; `points` has the place of each row in it, None where it has no coordinates."""

    height: float
    marks: Sequence[Marks]
    numbers: Sequence[Number]
    points: Sequence[Point | None]
    scale_length: float
    scale_text: str
    without: int  # rows that are not on the map


def coordinates(row: WorklistRow) -> tuple[float, float] | None:
    """Latitude and longitude; None where they are unknown."""
    return None if row.lat is None or row.lon is None else (row.lat, row.lon)


def site_map(rows: Sequence[WorklistRow]) -> SiteMap | None:
    """The map of rows in order of rank; None where none has coordinates."""
    places = [coordinates(row) for row in rows]
    known = [place for place in places if place is not None]
    if not known:
        return None
    metres = _metres(np.array(known))
    width_m, height_m = np.maximum(np.ptp(metres, axis=0), LEAST_EXTENT_M).tolist()
    inner = WIDTH - 2 * MARGIN
    per_m = min(inner / width_m, (MOST_HEIGHT - 2 * MARGIN) / height_m)
    height = float(round(max(LEAST_HEIGHT, height_m * per_m + 2 * MARGIN)))
    middle = (metres.min(axis=0) + metres.max(axis=0)) / 2
    drawn = (metres - middle) * [per_m, -per_m] + [WIDTH / 2, height / 2]
    known_points: Iterator[Point] = iter(map(tuple, np.round(drawn, 1).tolist()))
    points = [None if place is None else next(known_points) for place in places]
    length_m = _round_below(inner / 4 / per_m)
    return SiteMap(
        height,
        _marks(rows, points),
        _numbers(points),
        points,
        round(length_m * per_m, 1),
        f"{length_m / 1000:g} km" if length_m >= 1000 else f"{length_m:g} m",
        len(rows) - len(known),
    )


def _metres(places: Float[np.ndarray, "P 2"]) -> Float[np.ndarray, "P 2"]:
    """East and north in metres. A network on both sides of longitude 180 stays in one piece."""
    lat, lon = places.T
    if np.ptp(lon) > 180:
        lon = lon % 360
    middle = math.radians((lat.min() + lat.max()) / 2)
    return np.stack([lon * math.cos(middle), lat], axis=1) * M_PER_DEGREE


def _marks(rows: Sequence[WorklistRow], points: Sequence[Point | None]) -> list[Marks]:
    by_state: Mapping[str, list[Point]] = {state: [] for state in DRAWN}
    for row, point in zip(rows, points, strict=True):
        if point is not None:
            by_state[row.state].append(point)
    return [
        Marks(state, len(dots), glyph, "".join(f"M{x:g} {y:g}{glyph}" for x, y in dots))
        for state, dots in by_state.items()
        for glyph in (GLYPHS.get(state, DOT),)
    ]


def _numbers(points: Sequence[Point | None]) -> list[Number]:
    """The first ranks, as far as their texts do not lie on each other."""
    kept: list[Number] = []
    for rank, point in enumerate(points[:MOST_NUMBERS], 1):
        if point is None:
            continue
        x, y = point
        if all(abs(x - other.x) > 34 or abs(y - other.y) > 26 for other in kept):
            kept.append(Number(x, y, str(rank)))
    return kept


def _round_below(length: float) -> float:
    """The largest of 1, 2 or 5 times a power of ten that is no longer.

    >>> _round_below(730.0), _round_below(1999.0)
    (500.0, 1000.0)
    """
    power = 10.0 ** math.floor(math.log10(length))
    return max(base * power for base in (1, 2, 5) if base * power <= length)


CREATED_BY = "leakdet worklist"  # of the GeoJSON, with the version behind
COLUMNS = (
    "rank", "site", "state", "why", "nights", "leak_nights", "since", "score", "median_score",
    "level_dbfs", "median_level_dbfs", "familiarity", "health", "chance", "worth",
    "leak_share", "leak_share_low", "leak_share_high", "lat", "lon", "latest_recording",
    "latest_recorded_at", "list", "ranking_score",
)  # fmt: skip

BEGINNING = ",".join(COLUMNS[:7])  # of the CSV, by which it is known again


def table_row(rank: int, row: WorklistRow) -> dict[str, Any]:
    """The values of `COLUMNS`, None where unknown, and then the columns of the site's own."""
    low, high = row.leak_share_interval or (None, None)
    latest = row.recordings[0] if row.recordings else None
    at = latest.recorded_at if latest else None
    values = (
        rank, row.site, row.state, row.why, row.nights, row.leak_nights,
        None if row.since is None else row.since.isoformat(), row.score, row.median_score,
        row.level_dbfs, row.median_level_dbfs, row.familiarity, "; ".join(row.health),
        row.chance, row.worth, row.leak_share, low, high, row.lat, row.lon,
        latest.path if latest else "", None if at is None else at.isoformat(),
        row.list_name, row.ranking_score,
    )  # fmt: skip
    own = {name: value for name, value in row.columns.items() if name not in COLUMNS}
    return {**dict(zip(COLUMNS, values, strict=True)), **own}


def write_worklist_table(path: Path, rows: Sequence[WorklistRow]) -> None:
    """Write one row per site in order of rank, atomically, as CSV or as a workbook (.xlsx)."""
    own = dict.fromkeys(name for row in rows for name in row.columns if name not in COLUMNS)
    table = (table_row(rank, row) for rank, row in enumerate(rows, 1))
    if path.suffix.lower() == ".xlsx":
        write_workbook(path, table, [*COLUMNS, *own], "work list")
    else:
        write_csv(path, table, [*COLUMNS, *own], for_people=True)


def write_geojson(path: Path, rows: Sequence[WorklistRow]) -> int:
    """Write a point for each site with coordinates, atomically; the result counts them."""
    features = []
    for rank, row in enumerate(rows, 1):
        place = coordinates(row)
        if place is None:
            continue
        values = table_row(rank, row)
        del values["lat"], values["lon"]
        point = {"type": "Point", "coordinates": [place[1], place[0]]}
        features.append({"type": "Feature", "geometry": point, "properties": values})
    content = {
        "type": "FeatureCollection",
        "created_by": f"{CREATED_BY} {leakdet.__version__}",
        "features": features,
    }
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    write_whole(path, text, errors="backslashreplace")
    return len(features)


def is_worklist(path: Path, mark: str) -> bool:
    """True if a file is a table, page or GeoJSON of the command: its beginning holds the mark."""
    if is_workbook(path):
        return ",".join(read_table(path).columns).startswith(mark)
    with path.open("rb") as file:
        return mark.encode() in file.read(4096)


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


LIST_MEANINGS: Mapping[ListName, str] = {
    "news": "a leak-like sound whose beginning was heard",
    "backlog": "a leak-like sound from the first night on, or in most nights before: a pump, or an "
    "old leak; check each once",
    "other": "no leak-like sound, too few nights with one, or nothing to judge",
}


@dataclass(frozen=True)
class ListPart:
    """One of the lists that follow each other: how many sites it has, and which ranks."""

    name: ListName
    sites: int
    ranks: str
    meaning: str


def list_parts(rows: Sequence[WorklistRow]) -> list[ListPart]:
    """The lists that rows in order of rank fall into."""
    parts, last = [], 0
    for name in LISTS:
        sites = sum(row.list_name == name for row in rows)
        first, last = last + 1, last + sites
        ranks = {0: "", 1: f", rank {first}"}.get(sites, f", ranks {first} to {last}")
        parts.append(ListPart(name, sites, ranks, LIST_MEANINGS[name]))
    return parts


ADVICE = {
    "good": "Look first where this list begins.",
    "weak": "Dig only where other evidence agrees.",
    "bad": "Do not plan digs by this list: its model may be guessing.",
    "unknown": "Confirm by other evidence before you dig.",
}


def advice(verdict: ModelVerdict) -> str:
    """What follows for digs from a verdict on the model."""
    if verdict.is_of_synthetic:
        return "This says nothing about real pipes: train on recordings of your own."
    return ADVICE.get(verdict.grade, ADVICE["unknown"])


def model_verdict(card: Mapping[str, Any] | None) -> ModelVerdict:
    """The verdict in the description of a model; None: the model is not at hand."""
    if card is None:
        return ModelVerdict("unknown", "Unknown model", "The model that scored is not at hand.")
    return ModelVerdict.of(card)


@dataclass(frozen=True)
class WorklistPage:
    """What the page shows; `rows` are in order of rank, `nights` those of their trends.

    `cautions` say what is too small or unknown, `method` how the list was made, `held` in how many
    nights a site reached the score that ranks it. `review` has the recordings to hear, of the first
    ranks; `files` are the tables beside the page.
    """

    title: str
    kicker: str
    verdict: ModelVerdict
    sentences: Sequence[str]
    cautions: Sequence[str]
    lists: Sequence[ListPart]
    held: str
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
            "verdict": page.verdict,
            "advice": advice(page.verdict),
            "sentences": page.sentences,
            "cautions": page.cautions,
            "lists": page.lists,
            "held": page.held,
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
        {"fault": kind, "count": len(names), "which": first_few(list(names))}
        for kind, names in sorted(sites.items(), key=lambda item: -len(item[1]))
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
        "lists": {part.name: part.meaning for part in page.lists},
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
        "list": row.list_name,
        "score": _short(row.ranking_score, 3),
        "lastScore": _short(row.score, 3),
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
