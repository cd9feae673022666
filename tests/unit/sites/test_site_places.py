"""Where each site is."""

from datetime import datetime

import numpy as np
from tests.unit.sites.conftest import row

from leakdet.sites.row_columns import read_columns
from leakdet.sites.site_places import find_places

NIGHT = datetime.fromisoformat("2026-05-01T03:00")


def places(*told: tuple[str, str, str]) -> tuple[np.ndarray, list[str]]:
    columns = read_columns([row(site, NIGHT, 0.1, lat=lat, lon=lon) for site, lat, lon in told])
    return find_places(columns, np.arange(len(columns)))


def test_the_latest_place_of_a_site() -> None:
    place, notes = places(("A", "51.5", "0.1"), ("A", "51.5", "0.1"), ("B", "52", "-1"))
    assert place.tolist() == [[51.5, 0.1], [52.0, -1.0]]
    assert notes == []


def test_places_that_contradict_each_other_are_said_and_the_latest_is_shown() -> None:
    place, notes = places(("A", "51.5", "0.1"), ("A", "51.6", "0.1"), ("A", "", ""))
    assert place.tolist() == [[51.6, 0.1]]
    assert "1 site with places that contradict each other (A)" in notes[0]


def test_a_site_without_a_place_is_on_no_map() -> None:
    place, notes = places(("A", "", ""), ("B", "52", "1"))
    assert np.isnan(place[0]).all()
    assert notes == ["1 site without a place: on no map."]
    assert places(("A", "", ""))[1] == []  # nobody told any place


def test_places_that_may_be_the_wrong_way_round_are_said() -> None:
    assert "the wrong way round" in places(("A", "138.6", "-34.9"))[1][0]
    assert "the wrong way round" not in places(("A", "52", "200"))[1][0]


def test_impossible_places_are_none() -> None:
    place, notes = places(("A", "151", "0.1"), ("B", "0", "0"), ("C", "51", ""))
    assert np.isnan(place).all()
    assert "3 recordings with a lat or lon that is no place" in notes[0]
