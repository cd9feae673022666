"""Nights, and which rows count."""

from datetime import date, datetime, timedelta

import numpy as np
import pytest
from tests.unit.sites.conftest import TODAY, network, night_rows, only, row

from leakdet.errors import InputError
from leakdet.sites.make_worklist import make_worklist
from leakdet.sites.rules import WorklistRules


def nights_of(*times: str, **rules: int) -> list[date]:
    rows = [row("A", datetime.fromisoformat(time), 0.1) for time in times]
    return make_worklist(rows, WorklistRules(**rules), today=TODAY).nights


def test_a_night_runs_from_noon_to_noon_and_has_the_name_of_its_morning() -> None:
    assert nights_of("2026-05-01T12:00", "2026-05-01T23:59", "2026-05-02T11:59") == [
        date(2026, 5, 2)
    ]
    assert nights_of("2026-05-02T11:59", "2026-05-02T12:00") == [
        date(2026, 5, 2),
        date(2026, 5, 3),
    ]
    assert nights_of("2026-05-01") == [date(2026, 5, 1)]  # a date alone


def test_clocks_in_utc_far_from_greenwich_need_another_hour() -> None:
    honolulu = ("2026-05-01T11:30", "2026-05-01T12:30")  # half past one and two at night
    assert len(nights_of(*honolulu)) == 2
    assert len(nights_of(*honolulu, night_ends_h=22)) == 1
    assert nights_of("2026-05-01T03:00", night_ends_h=0) == [date(2026, 5, 1)]


def test_recordings_by_day_are_said() -> None:
    worklist = make_worklist(night_rows("A", [0.1] * 3, hour=14), today=TODAY)
    assert any("3 recordings made between 8:00 and 20:00" in note for note in worklist.notes)


def test_several_recordings_of_a_night_make_one_night() -> None:
    rows = network(3)
    for hour, score in ((2, 0.9), (3, 0.2), (4, 0.3)):
        rows += night_rows("A", [score] * 3, hour=hour)
    found = only(sorted(rows, key=lambda one: one["recorded_at"]), "A")
    assert (found.nights, found.leak_nights, found.score) == (3, 0, 0.3)
    assert len(found.recordings) == 9


def test_two_nights_in_one_folder_are_two_nights() -> None:
    rows = [one | {"path": f"folder/{n}.wav"} for n, one in enumerate(night_rows("A", [0.1, 0.9]))]
    found = only(rows, "A")
    assert (found.nights, found.trend) == (2, (0.1, 0.9))


def test_a_night_that_one_site_misses_is_none_in_its_trend() -> None:
    found = only(network(4) + night_rows("A", [0.1, None, 0.2, 0.3]), "A")
    assert found.trend == (0.1, None, 0.2, 0.3)
    assert found.nights == 3


def test_a_night_that_all_miss_silences_nobody_and_is_said() -> None:
    rows = [one for site in "ABC" for one in night_rows(site, [0.1, None, None, None, 0.1])]
    worklist = make_worklist(rows, today=TODAY)
    assert {one.state for one in worklist.rows} == {"quiet"}
    assert all(one.health == () for one in worklist.rows)
    assert "No recordings of the network in 3 nights (2026-05-02" in "".join(worklist.notes)


def test_a_recording_in_two_folders_counts_once_and_a_decided_row_stays() -> None:
    once = night_rows("A", [0.1, 0.9])
    moved = [one | {"path": "elsewhere/" + one["path"]} for one in once]
    failed = [one | {"decision": "", "leak_prob": "", "error": "cut off"} for one in once]
    worklist = make_worklist(once + moved + failed, today=TODAY)
    (found,) = worklist.rows
    assert (found.nights, len(found.recordings)) == (2, 2)
    assert found.recordings[0].path.startswith("elsewhere/")
    assert "4 rows left out that repeat a recording: each counts once." in worklist.notes


def test_two_loggers_at_one_site_and_time_both_count() -> None:
    night = datetime.fromisoformat("2026-05-01T03:00")
    rows = [row("A", night, 0.1, path=path) for path in ("left.wav", "right.wav")]
    assert len(only(rows, "A").recordings) == 2


def test_scores_of_two_models_are_not_mixed() -> None:
    rows = night_rows("A", [0.1] * 5, model="old") + night_rows("A", [None] * 3 + [0.9] * 4)
    worklist = make_worklist(rows, today=TODAY)
    assert worklist.rows[0].nights == 4
    assert any("5 recordings left out that another model scored (old)" in n for n in worklist.notes)
    again = night_rows("A", [0.9] * 5, model="new")  # the same nights: what came last counts
    rows = night_rows("A", [0.1] * 5, model="old") + again
    assert make_worklist(rows, today=TODAY).rows[0].leak_nights == 5


def test_old_nights_are_left_out_and_said() -> None:
    rows = night_rows("A", [0.1] * 20)
    worklist = make_worklist(rows, WorklistRules(history_nights=7), today=TODAY)
    assert len(worklist.nights) == len(worklist.rows[0].trend) == 7
    assert any("13 recordings left out that are older than 7 nights" in n for n in worklist.notes)


def test_rows_without_site_or_time_are_left_out_and_said() -> None:
    rows = [*night_rows("A", [0.1] * 3), *night_rows(" ", [0.9]), *night_rows("A", [0.9], hour=4)]
    rows[-1] |= {"recorded_at": ""}
    rows += [row("A", datetime.fromisoformat("2026-05-02T05:00"), 0.9, recorded_at="May 2nd")]
    worklist = make_worklist(rows, today=TODAY)
    assert [one.site for one in worklist.rows] == ["A"]
    assert worklist.rows[0].leak_nights == 0
    notes = " ".join(worklist.notes)
    assert "1 recording without a site left out" in notes
    assert "1 recording without recorded_at left out" in notes
    assert "1 recording left out whose recorded_at is no time, such as 'May 2nd'" in notes


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"site": ""}, "No row names its site"),
        ({"recorded_at": ""}, "there is no recorded_at"),
        ({"recorded_at": "yesterday"}, "'yesterday' is no time"),
    ],
)
def test_without_any_site_or_time_there_is_no_list(change: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_worklist([one | change for one in night_rows("A", [0.1])], today=TODAY)
    with pytest.raises(InputError, match="There is no row"):
        make_worklist([], today=TODAY)


def test_a_year_of_nights_keeps_what_the_rule_looks_at() -> None:
    begin = datetime.fromisoformat("2025-07-01T03:00")
    rows = [row("A", begin + timedelta(days=n), 0.1) for n in range(360)]
    worklist = make_worklist(rows, today=TODAY)
    assert len(worklist.nights) == 90
    assert np.diff([night.toordinal() for night in worklist.nights]).tolist() == [1] * 89
