"""The grid of sites and nights."""

import numpy as np
from tests.unit.sites.conftest import TODAY, network, night_rows

from leakdet.sites.nights import find_nights
from leakdet.sites.row_columns import Kind, read_columns
from leakdet.sites.rules import WorklistRules
from leakdet.sites.site_history import History, common_nights, common_rise, make_history


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
