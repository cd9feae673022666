import re
from datetime import date, datetime, timedelta

import numpy as np
import pytest
from tests.unit.sites.conftest import TODAY, network, night_rows, only, row

from leakdet.core.errors import InputError
from leakdet.sites.nights import (
    History,
    at,
    common_nights,
    common_rise,
    find_nights,
    kth_largest,
    last_few,
    last_of,
    make_history,
    masked_median,
    packed,
    pooled,
    sum_of_last,
)
from leakdet.sites.rows import Kind, read_columns
from leakdet.sites.rules import WorklistRules
from leakdet.sites.worklist import make_worklist

T, F = True, False
MASK = np.array([[F, T, F, T], [F, F, F, F], [T, T, T, T]])
VALUES = np.array([[9.0, 1.0, 9.0, 3.0], [9.0, 9.0, 9.0, 9.0], [4.0, np.nan, 2.0, 1.0]])


def test_last_values_of_a_row() -> None:
    assert last_of(MASK).tolist() == [3, -1, 3]
    assert at(VALUES, last_of(MASK), -5.0).tolist() == [3.0, -5.0, 1.0]
    assert last_few(MASK, 1).tolist() == [[F, F, F, T], [F] * 4, [F, F, F, T]]


def test_packed_values_keep_their_order() -> None:
    order, valid = packed(MASK)
    assert order[0, :2].tolist() == [1, 3]
    assert valid.sum(axis=1).tolist() == [2, 0, 4]


def test_sum_of_the_last_few() -> None:
    assert sum_of_last(MASK, 2).tolist() == [[0, 1, 1, 1], [0] * 4, [1, 2, 2, 2]]
    assert sum_of_last(MASK, 9).tolist() == np.cumsum(MASK, axis=1).tolist()


def test_medians_are_those_of_numpy_and_need_enough_values() -> None:
    rng = np.random.default_rng(0)
    values, mask = rng.random((50, 9)), rng.random((50, 9)) < 0.6
    mask[:, :2] = True
    expected = [np.median(row[known]) for row, known in zip(values, mask, strict=True)]
    np.testing.assert_allclose(masked_median(values, mask), expected)
    assert np.isnan(masked_median(VALUES, MASK)).tolist() == [F, T, F]
    assert np.isnan(masked_median(VALUES, MASK, fewest=3)).tolist() == [T, T, F]


def test_the_value_that_is_held() -> None:
    mask = np.ones((3, 4), bool)
    assert kth_largest(VALUES, mask, 3)[[0, 2]].tolist() == [3.0, 1.0]
    assert kth_largest(VALUES, MASK, 3)[0] == 1.0  # the least of two
    assert np.isnan(kth_largest(VALUES, MASK, 3)[1])


def test_the_upper_median_of_each_cell() -> None:
    scores = np.array([0.9, 0.1, 0.5, 0.2, 0.8, 0.3])
    cell = np.array([0, 0, 0, 1, 1, 3])
    found = pooled(scores, cell, (2, 2))
    np.testing.assert_array_equal(found, [[0.5, 0.8], [np.nan, 0.3]])


def test_it_reaches_a_threshold_exactly_where_half_of_the_recordings_do() -> None:
    rng = np.random.default_rng(1)
    scores, cell = rng.random(2000), np.sort(rng.integers(0, 300, 2000))
    score = pooled(scores, cell, (300, 1))[:, 0]
    for threshold in (0.3, 0.5, 0.7):
        hits = np.bincount(cell, scores >= threshold, 300)
        half = 2 * hits >= np.bincount(cell, minlength=300)
        known = ~np.isnan(score)
        np.testing.assert_array_equal((score >= threshold)[known], half[known])


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
    assert found.state == "broken"
    assert "clock is wrong" in found.why
    assert (found.recordings, found.since, found.chance) == ((), None, None)


def test_a_clock_that_is_some_days_ahead_does_not_silence_the_others() -> None:
    ahead = night_rows("A", [None] * 6 + [0.1] * 3)
    worklist = make_worklist(network(6) + ahead, today=TODAY)
    assert worklist.nights[-1] == date(2026, 5, 6)
    assert {one.state for one in worklist.rows} == {"quiet"}
    assert any("hardly any other site" in note for note in worklist.notes)
    assert any(re.search("^1 site without .*: A", note) for note in worklist.notes)


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
    assert any("order of time" in note for note in worklist.notes)


def test_the_hour_that_comes_twice_in_autumn_is_one_night() -> None:
    night = datetime.fromisoformat("2026-05-06T02:30")
    twice = [row("A", night, 0.1), row("A", night.replace(minute=10), 0.1, path="second.wav")]
    assert only([*network(6), *night_rows("A", [0.1] * 5), *twice], "A").nights == 6


def test_no_possible_time_at_all_is_refused() -> None:
    with pytest.raises(InputError, match=r"recorded_at .*2005 .*2026-07-01"):
        make_worklist([row("A", datetime.fromisoformat("1970-01-01T00:00"), 0.1)], today=TODAY)


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
    assert "in 3 nights (2026-05-02" in "".join(worklist.notes)


def test_a_recording_in_two_folders_counts_once_and_a_decided_row_stays() -> None:
    once = night_rows("A", [0.1, 0.9])
    moved = [one | {"path": "elsewhere/" + one["path"]} for one in once]
    failed = [one | {"decision": "", "leak_prob": "", "error": "cut off"} for one in once]
    worklist = make_worklist(once + moved + failed, today=TODAY)
    (found,) = worklist.rows
    assert (found.nights, len(found.recordings)) == (2, 2)
    assert found.recordings[0].path.startswith("elsewhere/")
    assert any(note.startswith("4 rows left out") for note in worklist.notes)


def test_two_loggers_at_one_site_and_time_both_count() -> None:
    night = datetime.fromisoformat("2026-05-01T03:00")
    rows = [row("A", night, 0.1, path=path) for path in ("left.wav", "right.wav")]
    assert len(only(rows, "A").recordings) == 2


def test_scores_of_two_models_are_not_mixed() -> None:
    rows = night_rows("A", [0.1] * 5, model="old") + night_rows("A", [None] * 3 + [0.9] * 4)
    worklist = make_worklist(rows, today=TODAY)
    assert worklist.rows[0].nights == 4
    assert any(re.search(r"5 recordings left out .*model .*\(old\)", n) for n in worklist.notes)
    again = night_rows("A", [0.9] * 5, model="new")  # the same nights: what came last counts
    rows = night_rows("A", [0.1] * 5, model="old") + again
    assert make_worklist(rows, today=TODAY).rows[0].leak_nights == 5


def test_old_nights_are_left_out_and_said() -> None:
    rows = night_rows("A", [0.1] * 20)
    worklist = make_worklist(rows, WorklistRules(history_nights=7), today=TODAY)
    assert len(worklist.nights) == len(worklist.rows[0].trend) == 7
    assert any(re.search("13 recordings left out .*7 nights", n) for n in worklist.notes)


def test_rows_without_site_or_time_are_left_out_and_said() -> None:
    rows = [*night_rows("A", [0.1] * 3), *night_rows(" ", [0.9]), *night_rows("A", [0.9], hour=4)]
    rows[-1] |= {"recorded_at": ""}
    rows += [row("A", datetime.fromisoformat("2026-05-02T05:00"), 0.9, recorded_at="May 2nd")]
    worklist = make_worklist(rows, today=TODAY)
    assert [one.site for one in worklist.rows] == ["A"]
    assert worklist.rows[0].leak_nights == 0
    notes = " ".join(worklist.notes)
    assert "1 recording without a site" in notes
    assert "1 recording without recorded_at" in notes
    assert re.search("1 recording left out .*recorded_at .*'May 2nd'", notes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"site": ""}, "names its site"),
        ({"recorded_at": ""}, "no recorded_at"),
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


def history_of(rows: list) -> History:
    columns, rules = read_columns(rows), WorklistRules()
    return make_history(columns, find_nights(columns, rules, TODAY), rules)


def test_a_night_takes_the_lowest_level_and_the_middle_score_of_its_recordings() -> None:
    rows = []
    for hour, score, level in ((1, 0.2, -60.0), (2, 0.9, -72.0), (3, 0.4, -65.0)):
        rows += night_rows("A", [score], level, hour=hour)
    found = history_of(rows)
    assert found.score.tolist() == [[0.4]]
    assert found.level.tolist() == [[-72.0]]
    assert found.alarm.tolist() == [[False]]
    assert found.heard.tolist() == [[3]]


def test_what_was_not_decided_is_neither_judged_nor_an_alarm() -> None:
    rows = night_rows("A", [0.9], decision="undecided", reason="unfamiliar")
    rows += night_rows("B", [0.9], flags="met_in_training")
    rows += night_rows("C", [0.9], decision="undecided", reason="silent")
    found = history_of(rows)
    assert not found.judged.any()
    assert not found.alarm.any()
    assert np.isnan(found.score).all()
    assert np.isnan(found.level[:, 0]).tolist() == [False, False, True]  # no level of silence
    assert [int(found.counts[kind].sum()) for kind in (Kind.UNDECIDED, Kind.MET)] == [1, 1]


def test_a_night_of_a_common_cause_needs_many_more_alarms_than_usual() -> None:
    judged = np.ones((40, 10), bool)
    alarm = np.zeros((40, 10), bool)
    alarm[:4] = True  # a tenth of all sites, always
    alarm[4:11, 6] = True  # 7 more: not by a fifth
    assert not common_nights(alarm, judged, 0.2).any()
    alarm[4:14, 6] = True
    assert np.flatnonzero(common_nights(alarm, judged, 0.2)).tolist() == [6]
    assert not common_nights(alarm[:19], judged[:19], 0.2).any()  # too few sites to tell


def test_what_raises_all_levels_is_told_from_what_raises_one() -> None:
    level = np.random.default_rng(0).normal(-70.0, 0.5, (30, 12))
    level[:, 4] += 8.0
    level[3, 8] += 20.0
    found = common_rise(level)
    assert abs(found[4] - 8.0) < 0.5
    assert np.abs(np.delete(found, 4)).max() < 0.5
    assert common_rise(level[:5]).tolist() == [0.0] * 12
    assert common_rise(np.full((30, 3), np.nan)).tolist() == [0.0] * 3


def test_a_quiet_network_has_no_alarm() -> None:
    assert not history_of(network(3)).alarm.any()
