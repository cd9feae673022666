"""The map of sites: scale, shape, and coordinates that are none."""

import re
from dataclasses import replace

import pytest

from leakdet.reporting.site_map import WIDTH, coordinates, site_map


@pytest.fixture
def row(worklist_rows):
    return worklist_rows(1)[0]


def at(row, *places):
    return [replace(row, lat=lat, lon=lon) for lat, lon in places]


def test_distances_are_true_in_both_directions(row) -> None:
    # 1 km east and 1 km north of a place at 60 degrees, where a degree of longitude is half as long
    km = 1 / 111.195
    chart = site_map(at(row, (60.0, 10.0), (60.0, 10.0 + 2 * km), (60.0 + km, 10.0)))
    assert chart is not None
    (x0, y0), (x1, y1), (x2, y2) = (point for point in chart.points if point)
    east, north = x1 - x0, y0 - y2
    assert (y1, x2) == (y0, x0)
    assert east > 0
    assert north == pytest.approx(east, rel=0.01)
    assert chart.scale_text == "200 m"
    assert chart.scale_length == pytest.approx(east / 5, abs=0.1)


def test_every_site_is_inside_and_drawn_once(worklist_rows) -> None:
    rows = worklist_rows(300)
    chart = site_map(rows)
    assert chart is not None
    assert all(0 < x < WIDTH and 0 < y < chart.height for x, y in (p for p in chart.points if p))
    assert sum(marks.count for marks in chart.marks) == 300
    for marks in chart.marks:
        assert len(re.findall(r"M[\d.]+ ", marks.path)) == marks.count
        assert marks.count == sum(row.state == marks.state for row in rows)


def test_one_place_alone_is_in_the_middle(row) -> None:
    chart = site_map(at(row, (52.0, 13.0), (52.0, 13.0)))
    assert chart is not None
    assert chart.points == [(WIDTH / 2, chart.height / 2)] * 2
    assert [number.text for number in chart.numbers] == ["1"]  # not one text upon the other


def test_a_network_on_both_sides_of_longitude_180_stays_in_one_piece(row) -> None:
    chart = site_map(at(row, (-17.0, 179.9), (-17.0, -179.9)))
    assert chart is not None
    assert chart.scale_text == "5 km"  # of 21 km


def test_a_site_without_a_place_is_left_out(row) -> None:
    nowhere = replace(row, lat=None, lon=None)
    assert coordinates(nowhere) is None
    assert site_map([nowhere]) is None
    chart = site_map([nowhere, *at(row, (52.0, 13.0))])
    assert chart is not None
    assert (chart.without, chart.points[0]) == (1, None)
