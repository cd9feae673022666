"""The work list as a table (CSV) and as points for maps (GeoJSON, RFC 7946)."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import leakdet
from leakdet.reporting.site_map import coordinates
from leakdet.sites.worklist_row import WorklistRow
from leakdet.storage.atomic import write_whole
from leakdet.storage.csv_file import write_csv

CREATED_BY = "leakdet worklist"  # of the GeoJSON, with the version behind
COLUMNS = (
    "rank", "site", "state", "why", "nights", "leak_nights", "since", "score", "median_score",
    "level_dbfs", "median_level_dbfs", "familiarity", "health", "chance", "worth",
    "leak_share", "leak_share_low", "leak_share_high", "lat", "lon", "latest_recording",
    "latest_recorded_at",
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
    )  # fmt: skip
    own = {name: value for name, value in row.columns.items() if name not in COLUMNS}
    return {**dict(zip(COLUMNS, values, strict=True)), **own}


def write_worklist_csv(path: Path, rows: Sequence[WorklistRow]) -> None:
    """Write one row per site in order of rank, atomically."""
    own = dict.fromkeys(name for row in rows for name in row.columns if name not in COLUMNS)
    table = (table_row(rank, row) for rank, row in enumerate(rows, 1))
    write_csv(path, table, [*COLUMNS, *own])


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
    with path.open("rb") as file:
        return mark.encode() in file.read(4096)
