"""Wrong clocks: reset, ahead, gone back."""

from datetime import date, datetime

import pytest
from tests.unit.sites.conftest import TODAY, network, night_rows, only, row

from leakdet.errors import InputError
from leakdet.sites.make_worklist import make_worklist


@pytest.mark.parametrize("year", [1970, 1980, 2000, 2031])
def test_recordings_of_a_clock_that_was_reset_or_is_ahead_are_left_out_and_said(year: int) -> None:
    rows = network(6) + night_rows("A", [0.1] * 5)
    rows += [row("A", datetime.fromisoformat(f"{year}-01-01T03:00"), 0.9)]
    worklist = make_worklist(rows, today=TODAY)
    (found,) = [one for one in worklist.rows if one.site == "A"]
    assert (found.nights, found.leak_nights) == (5, 0)
    assert "clock: 1 recordings dated wrongly" in found.health
    side = "before 2005" if year < 2005 else f"after {TODAY}"
    assert any(f"1 recording dated {side} left out, of A" in note for note in worklist.notes)
    assert len(worklist.nights) == 6


def test_a_logger_whose_clock_was_always_wrong_is_broken_not_lost() -> None:
    found = only([*network(6), row("A", datetime.fromisoformat("1970-01-02T00:00"), 0.9)], "A")
    assert (found.state, found.why) == (
        "broken",
        "none of its recordings counts: its clock is wrong",
    )
    assert (found.recordings, found.since, found.chance) == ((), None, None)


def test_a_clock_that_is_some_days_ahead_does_not_silence_the_others() -> None:
    ahead = night_rows("A", [None] * 6 + [0.1] * 3)
    worklist = make_worklist(network(6) + ahead, today=TODAY)
    assert worklist.nights[-1] == date(2026, 5, 6)
    assert {one.state for one in worklist.rows} == {"quiet"}
    assert any("hardly any other site was heard" in note for note in worklist.notes)
    assert "1 site without a recording that counts: A." in worklist.notes


def test_a_clock_that_goes_back_onto_nights_that_were_heard_counts_once() -> None:
    again = [
        one | {"path": "again/" + one["path"][-8:]} for one in night_rows("A", [0.9] * 3, hour=4)
    ]
    rows = network(10) + night_rows("A", [0.1] * 7) + again
    worklist = make_worklist(rows, today=TODAY)
    (found,) = [one for one in worklist.rows if one.site == "A"]
    assert (found.state, found.nights, found.leak_nights) == ("silent logger", 7, 0)
    assert "clock: 3 recordings dated wrongly" in found.health
    assert any("3 recordings left out, of A: the clock" in note for note in worklist.notes)


def test_nights_that_come_late_after_a_lost_connection_count() -> None:
    late = night_rows("A", [None] * 5 + [0.9] * 3)
    rows = night_rows("A", [0.1] * 5 + [None] * 3 + [0.9]) + late + network(9)
    found = only(rows, "A")
    assert (found.nights, found.leak_nights, found.state) == (9, 4, "new")


def test_rows_in_no_order_tell_nothing_of_clocks_and_count_all() -> None:
    rows = [
        one for hour in (3, 4) for site in "ABC" for one in night_rows(site, [0.1] * 5, hour=hour)
    ]
    worklist = make_worklist(rows, today=TODAY)
    assert {one.nights for one in worklist.rows} == {5}
    assert any("not in the order of time" in note for note in worklist.notes)


def test_the_hour_that_comes_twice_in_autumn_is_one_night() -> None:
    night = datetime.fromisoformat("2026-05-06T02:30")
    twice = [row("A", night, 0.1), row("A", night.replace(minute=10), 0.1, path="second.wav")]
    assert only([*network(6), *night_rows("A", [0.1] * 5), *twice], "A").nights == 6


def test_no_possible_time_at_all_is_refused() -> None:
    with pytest.raises(InputError, match="Every recorded_at lies before 2005 or after 2026-07-01"):
        make_worklist([row("A", datetime.fromisoformat("1970-01-01T00:00"), 0.1)], today=TODAY)
