"""A map of sites as SVG paths, drawn from their coordinates alone, so that it asks no other host.

Equirectangular: degrees of longitude are shortened by the cosine of the middle latitude, which
keeps shapes as they are over the extent of a water network.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from leakdet.sites.worklist_row import WorklistRow

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
    of_known: Iterator[Point] = iter(map(tuple, np.round(drawn, 1).tolist()))
    points = [None if place is None else next(of_known) for place in places]
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
    of_state: Mapping[str, list[Point]] = {state: [] for state in DRAWN}
    for row, point in zip(rows, points, strict=True):
        if point is not None:
            of_state[row.state].append(point)
    return [
        Marks(state, len(found), glyph, "".join(f"M{x:g} {y:g}{glyph}" for x, y in found))
        for state, found in of_state.items()
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
