"""Rows of predict as columns."""

import gc
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import numpy as np
import pytest
from tests.unit.sites.conftest import row

from leakdet.core.errors import InputError
from leakdet.sites.rows import DAY_S, UNDATED, UNREAD, Kind, read_blocks, read_columns

NIGHT = datetime.fromisoformat("2026-05-01T03:00")


def test_texts_of_a_csv_and_values_read_alike() -> None:
    text = row("A", NIGHT, 0.25, -61.5)
    values = text | {"leak_prob": 0.25, "quiet_level_dbfs": -61.5, "recorded_at": NIGHT}
    columns = read_columns([text, values])
    assert columns.numbers["leak_prob"].tolist() == [0.25, 0.25]
    assert columns.numbers["quiet_level_dbfs"].tolist() == [-61.5, -61.5]
    assert columns.seconds[0] == columns.seconds[1] == NIGHT.toordinal() * DAY_S + 3 * 3600


def test_an_offset_is_not_applied_since_nights_are_those_of_the_recorders_clock() -> None:
    times = ("2026-05-01T03:00:00", "2026-05-01T03:00:00+10:00", "2026-05-01T03:00:00Z")
    columns = read_columns([row("A", NIGHT, 0.1, recorded_at=time) for time in times])
    assert len(set(columns.seconds.tolist())) == 1


def test_columns_may_lack() -> None:
    columns = read_columns([{"path": "a.wav", "site": "A", "decision": "leak"}])
    assert columns.seconds.tolist() == [UNDATED]
    assert all(np.isnan(values).all() for values in columns.numbers.values())


def test_times_and_numbers_that_are_none() -> None:
    columns = read_columns([row("A", NIGHT, 0.1, recorded_at="tonight", lat="51,5,1", lon="inf")])
    assert columns.seconds.tolist() == [UNREAD]
    assert columns.unread_time == "tonight"
    assert columns.bad_numbers == 2
    assert columns.bad_number == "lat '51,5,1'"


@pytest.mark.parametrize(
    ("lat", "lon"),
    [
        ({"lat": "50,11"}, {"lon": "8,68"}),
        ({"Latitude": "50.11° N"}, {"Longitude": "8.68°E"}),
        ({"LAT": "N 50° 6' 36\""}, {"Lng": "8°40′48″ E"}),
        ({"Breitengrad": "+50.11"}, {"gps_lon": 8.68}),
    ],
)
def test_places_are_read_as_people_write_them(lat: dict[str, Any], lon: dict[str, Any]) -> None:
    told = row("A", NIGHT, 0.1)
    told = {name: value for name, value in told.items() if name not in ("lat", "lon")}
    columns = read_columns([{**told, **lat, **lon}])
    assert columns.numbers["lat"].tolist() == pytest.approx([50.11])
    assert columns.numbers["lon"].tolist() == pytest.approx([8.68])
    assert columns.bad_numbers == 0
    assert columns.texts["other"] == [()]
    assert read_columns([{**told, **lat, "lat": 3.0}]).numbers["lat"].tolist() == [3.0]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({}, Kind.JUDGED),
        ({"flags": "clipped,met_in_training"}, Kind.MET),
        ({"decision": "undecided", "reason": "unfamiliar"}, Kind.UNDECIDED),
        ({"decision": "undecided", "reason": "other_source"}, Kind.UNDECIDED),
        ({"decision": "undecided", "reason": "doubt"}, Kind.JUDGED),
        ({"decision": "undecided", "reason": "doubt", "flags": "met_in_training"}, Kind.MET),
        ({"decision": "undecided", "reason": "silent"}, Kind.NO_SOUND),
        ({"decision": "undecided", "reason": "short"}, Kind.SPOILT),
        ({"decision": "", "error": "damaged"}, Kind.FAILED),
    ],
)
def test_what_a_recording_is_for_its_site(values: dict[str, str], kind: Kind) -> None:
    assert read_columns([row("A", NIGHT, 0.1, **values)]).kind.tolist() == [kind]


def test_a_channel_is_a_site_and_other_columns_are_kept() -> None:
    columns = read_columns([row("A", NIGHT, 0.1, channel="2", logger="7", pipe="steel")])
    assert columns.texts["site"] == ["A channel 2"]
    for blank in (None, ""):
        assert read_columns([row("A", NIGHT, 0.1, channel=blank)]).texts["site"] == ["A"]
    assert read_columns([row("A", NIGHT, 0.1, channel=2.0)]).texts["site"] == ["A channel 2"]
    assert columns.texts["other"] == [(("logger", "7"), ("pipe", "steel"))]


def test_a_channel_is_a_site_whether_told_as_text_or_number() -> None:
    told = [{"path": "a.wav", "site": "B7", "channel": channel} for channel in ("2", 2.0, "", None)]
    columns = read_columns(told)
    names = [columns.texts["site"][site] for site in columns.ids["site"]]
    assert names == ["B7 channel 2", "B7 channel 2", "B7", "B7"]


def test_arrays_of_columns_read_as_their_rows_do() -> None:
    told = [
        row("A", NIGHT, 0.1, leak_prob=score, channel=None, pipe=pipe)
        for score, pipe in ((0.25, "steel"), (None, ""), (np.inf, "lead"))
    ]
    block = {name: np.array([one[name] for one in told], object) for name in told[0]}
    block["leak_prob"] = np.array([0.25, np.nan, np.inf])
    columns, expected = read_blocks([block]), read_columns(told)
    for name, numbers in expected.numbers.items():
        np.testing.assert_array_equal(columns.numbers[name], numbers)
    np.testing.assert_array_equal(columns.numbers["leak_prob"], [0.25, np.nan, np.nan])
    assert columns.bad_numbers == expected.bad_numbers == 1
    assert block["leak_prob"][2] == np.inf  # what was given stays as it was
    assert columns.texts == expected.texts
    assert columns.texts["other"] == [(("pipe", "steel"),), (("pipe", ""),), (("pipe", "lead"),)]
    assert columns.kind.tolist() == expected.kind.tolist()
    assert columns.seconds.tolist() == expected.seconds.tolist()


def test_rows_of_one_list_may_have_different_columns() -> None:
    rows = [row("A", NIGHT, 0.1), row("B", NIGHT, 0.2, pipe="steel"), row("C", NIGHT, 0.3)]
    columns = read_columns(rows)
    assert columns.numbers["leak_prob"].tolist() == [0.1, 0.2, 0.3]
    assert [columns.texts["other"][one] for one in columns.ids["other"]] == [
        (),
        (("pipe", "steel"),),
        (),
    ]


@pytest.mark.parametrize("collects", [True, False])
def test_garbage_is_collected_afterwards_as_before(collects: bool) -> None:
    seen = []

    def rows() -> Iterator[dict[str, Any]]:
        seen.append(gc.isenabled())
        yield row("A", NIGHT, 0.1)
        raise InputError("damaged")

    before = gc.isenabled()
    try:
        (gc.enable if collects else gc.disable)()
        with pytest.raises(InputError):
            read_columns(rows())
        assert (seen, gc.isenabled()) == ([False], collects)
    finally:
        (gc.enable if before else gc.disable)()
