"""The work list as CSV and GeoJSON."""

import csv
import json
from dataclasses import replace
from pathlib import Path

from leakdet.reporting.worklist_tables import (
    BEGINNING,
    COLUMNS,
    CREATED_BY,
    is_worklist,
    table_row,
    write_geojson,
    write_worklist_csv,
)


def read(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def test_a_row_per_site_in_order_of_rank(worklist_rows, tmp_path: Path) -> None:
    rows = worklist_rows(30)
    write_worklist_csv(tmp_path / "list.csv", rows)
    found = read(tmp_path / "list.csv")
    assert list(found[0]) == [*COLUMNS, "logger", "pipe"]
    assert [row["rank"] for row in found] == [str(rank) for rank in range(1, 31)]
    assert [row["site"] for row in found] == [row.site for row in rows]
    assert found[0]["since"] == "2026-11-28"
    assert found[0]["score"] == str(rows[0].score)
    assert found[5]["score"] == found[5]["worth"] == ""  # a silent logger
    assert found[5]["health"] == "missing for 4 nights"
    assert found[0]["latest_recorded_at"] == "2026-11-30T03:00:00"


def test_columns_of_its_own_name_are_not_overwritten(worklist_rows) -> None:
    row = replace(worklist_rows(1)[0], columns={"state": "Berlin", "pipe": "PE"})
    values = table_row(1, row)
    assert (values["state"], values["pipe"]) == ("new", "PE")


def test_a_site_without_recordings_has_a_row(worklist_rows, tmp_path: Path) -> None:
    row = replace(worklist_rows(1)[0], recordings=(), columns={})
    write_worklist_csv(tmp_path / "list.csv", [row])
    assert read(tmp_path / "list.csv")[0]["latest_recording"] == ""


def test_points_have_longitude_first_and_unknown_is_null(worklist_rows, tmp_path: Path) -> None:
    rows = worklist_rows(8)
    rows[2] = replace(rows[2], lat=None)
    rows[3] = replace(rows[3], lon=None)
    path = tmp_path / "list.geojson"
    assert write_geojson(path, rows) == 6
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["type"] == "FeatureCollection"
    first, silent = content["features"][0], content["features"][3]
    assert first["geometry"] == {"type": "Point", "coordinates": [rows[0].lon, rows[0].lat]}
    assert first["properties"]["rank"] == 1
    assert silent["properties"]["rank"] == 6
    assert silent["properties"]["score"] is None


def test_its_own_files_are_known_again(worklist_rows, tmp_path: Path) -> None:
    write_worklist_csv(tmp_path / "a.csv", worklist_rows(2))
    write_geojson(tmp_path / "a.geojson", worklist_rows(2))
    (tmp_path / "other.csv").write_text("rank,site\n1,a\n")
    assert is_worklist(tmp_path / "a.csv", BEGINNING)
    assert is_worklist(tmp_path / "a.geojson", CREATED_BY)
    assert not is_worklist(tmp_path / "other.csv", BEGINNING)
