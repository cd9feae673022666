import re
from dataclasses import replace
from datetime import datetime

import numpy as np
from tests.unit.sites.conftest import TODAY, network, night_rows, only, row
from tests.unit.sites.test_worth import evidence

from leakdet.sites.rows import read_columns
from leakdet.sites.rules import WorklistRules
from leakdet.sites.states import Recording, WorklistRow
from leakdet.sites.worklist import Worklist, find_places, make_worklist

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
    assert re.search(r"1 site .*contradict .*\(A\)", notes[0])


def test_a_site_without_a_place_is_on_no_map() -> None:
    place, notes = places(("A", "", ""), ("B", "52", "1"))
    assert np.isnan(place[0]).all()
    assert [note.partition(":")[0] for note in notes] == ["1 site without a place"]
    assert places(("A", "", ""))[1] == []  # nobody told any place


def test_places_that_may_be_the_wrong_way_round_are_said() -> None:
    assert "the wrong way round" in places(("A", "138.6", "-34.9"))[1][0]
    assert "the wrong way round" not in places(("A", "52", "200"))[1][0]


def test_impossible_places_are_none() -> None:
    place, notes = places(("A", "151", "0.1"), ("B", "0", "0"), ("C", "51", ""))
    assert np.isnan(place).all()
    assert "3 recordings with a lat or lon" in notes[0]


def test_a_row_lists_its_newest_recordings_and_the_latest_columns() -> None:
    rows = network(4) + night_rows("A", [0.1, 0.2], logger="1", pipe="steel", lat="51", lon="0.5")
    rows += night_rows("A", [None, None, 0.3, 0.4], -66.0, logger="2", pipe="steel")
    found = only(rows, "A", rules=WorklistRules(recordings=2))
    assert found.recordings == (
        Recording(
            "20260504/A_0300.wav",
            datetime.fromisoformat("2026-05-04T03:00"),
            0.4,
            "no_leak",
            -66.0,
        ),
        Recording(
            "20260503/A_0300.wav",
            datetime.fromisoformat("2026-05-03T03:00"),
            0.3,
            "no_leak",
            -66.0,
        ),
    )
    assert found.columns == {"logger": "2", "pipe": "steel"}
    assert (found.lat, found.lon) == (51.0, 0.5)
    assert (found.trend, found.score) == ((0.1, 0.2, 0.3, 0.4), 0.4)
    assert found.familiarity == 0.4


def test_what_is_unknown_is_none() -> None:
    found = only(network(3) + night_rows("A", [0.1], quiet_level_dbfs="", familiarity=""), "A")
    assert (found.level_dbfs, found.median_level_dbfs, found.familiarity) == (None, None, None)
    assert (found.lat, found.lon, found.worth, found.leak_share) == (None, None, None, None)
    assert (found.trend, found.columns) == ((0.1, None, None), {})


def test_each_site_has_one_row_whatever_the_order_of_the_sites() -> None:
    rows = network(8) + night_rows("A", [0.1] * 4 + [0.9] * 4)
    there, back = (
        make_worklist(sorted(rows, key=lambda one: one["site"], reverse=turned), today=TODAY)
        for turned in (False, True)
    )
    assert len(there.rows) == 26
    assert {one.site: one for one in there.rows} == {one.site: one for one in back.rows}
    assert there.rows[0] == back.rows[0]
    assert len(there.nights) == 8


def test_the_list_is_the_same_with_doubt_and_without() -> None:
    """A site that scores 0.65 in every night alarms, though nothing of it is decided."""
    rows = network(9) + night_rows("A", [0.2] * 5 + [0.65] * 4) + night_rows("B", [0.45] * 9)
    doubted = [
        {**one, "threshold": "0.5"}
        | ({"decision": "undecided", "reason": "doubt"} if float(one["leak_prob"]) > 0.3 else {})
        for one in rows
    ]
    sure, unsure = (make_worklist(given, today=TODAY) for given in (rows, doubted))
    assert [one.state for one in unsure.rows if one.site == "A"] == ["new"]
    reasons = {one.site: one.why for one in unsure.rows}
    assert [site for site, why in reasons.items() if "possible leak in 1 of 1 " in why] == [
        "A",
        "B",
    ]
    words = {recording.decision for one in unsure.rows for recording in one.recordings}
    assert words == {"possible leak", "no_leak"}

    def without_words(worklist: Worklist) -> list[WorklistRow]:
        return [
            replace(
                one,
                why=one.why.partition("; possible leak")[0],
                recordings=tuple(replace(r, decision="") for r in one.recordings),
            )
            for one in worklist.rows
        ]

    assert without_words(unsure) == without_words(sure)
    assert unsure.notes == sure.notes


def test_an_iterator_of_rows_is_enough() -> None:
    rows = network(3)
    assert make_worklist(iter(rows), today=TODAY) == make_worklist(rows, today=TODAY)


def test_what_the_list_cannot_know_is_said() -> None:
    rows = [one | {"quiet_level_dbfs": ""} for one in night_rows("A", [0.1] * 3)]
    rows[0] |= {"flags": "met_in_training"}
    notes = " ".join(make_worklist(rows, today=TODAY).notes)
    assert "No row has a quiet_level_dbfs" in notes
    assert "1 recording that the model met in training" in notes
    assert "No scores of" in notes
    assert "unknown without the costs" in notes
    few = make_worklist(night_rows("A", [0.1]), evidence=evidence(5, 30), today=TODAY)
    assert any("fewer than 20 sites" in note for note in few.notes)
    assert any("5 leaks and 30 other recordings" in note for note in few.notes)
