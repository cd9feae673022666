"""What each site did over its nights."""

import numpy as np
from tests.unit.sites.conftest import network, night_rows
from tests.unit.sites.test_site_history import history_of

from leakdet.sites.course import follow_alarms, follow_levels, follow_presence
from leakdet.sites.rules import WorklistRules

RULES = WorklistRules()
T, F = 0.9, 0.1


def alarms_of(*scores: float | None) -> dict[str, int]:
    found = follow_alarms(history_of(night_rows("A", scores)), RULES)
    return {name: values[0].item() for name, values in vars(found).items()}


def test_a_run_of_alarms_begins_after_two_nights_without_one() -> None:
    found = alarms_of(T, F, F, F, T, F, T, T)
    assert (found["since"], found["onset"], found["quiet_before"]) == (4, True, 4)
    assert (found["recent_alarms"], found["suspected"], found["early"]) == (3, True, 4)
    found = alarms_of(F, T, T, T)
    assert (found["since"], found["onset"]) == (1, False)  # one quiet night proves little
    found = alarms_of(T, T, T, F, F)
    assert (found["since"], found["suspected"], found["was_suspected"]) == (-1, False, True)
    assert (found["last_alarm"], found["judged"], found["alarms"]) == (2, 5, 3)


def test_nights_that_were_not_heard_neither_make_nor_end_a_run() -> None:
    found = alarms_of(F, F, T, None, None, T, None, T)
    assert (found["since"], found["recent_alarms"], found["recent_nights"]) == (2, 3, 4)
    assert found["suspected"]
    assert (found["recent_score"], found["median_score"]) == (T, F)


def levels_of(levels: list[float], **columns: str) -> dict[str, float]:
    history = history_of(
        network(len(levels)) + night_rows("A", [F] * len(levels), levels, **columns)
    )
    found = follow_levels(history, follow_alarms(history, RULES), RULES)
    return {name: values[-1].item() for name, values in vars(found).items()}


def test_a_rise_counts_where_it_is_held() -> None:
    once = levels_of([-70.0] * 9 + [-55.0])
    assert (once["last"], once["median"], once["off"], once["rise"]) == (-55.0, -70.0, 15.0, 0.0)
    held = levels_of([-70.0] * 7 + [-62.0, -60.0, -61.0])
    assert held["rise"] == 8.0


def test_a_median_needs_enough_nights() -> None:
    assert np.isnan(levels_of([-70.0] * 8)["median"])
    assert levels_of([-70.0] * 9)["median"] == -70.0


def test_another_logger_begins_a_new_history_of_levels() -> None:
    old = night_rows("A", [F] * 10, -50.0, logger="1")
    new = night_rows("A", [None] * 10 + [F] * 6, -70.0, logger="2")
    history = history_of(network(16) + old + new)
    found = follow_levels(history, follow_alarms(history, RULES), RULES)
    assert found.restarted[-1] == 10
    assert np.isnan(found.median[-1])  # two nights are none
    assert found.restarted[0] == -1


def test_presence_counts_nights_of_the_network_in_the_sites_own_interval() -> None:
    rows = network(12) + night_rows("A", [F] * 9) + night_rows("B", [F, None, None] * 3)
    found = follow_presence(history_of(rows), np.ones(12, bool), RULES)
    assert found.last_heard[-2:].tolist() == [8, 6]
    assert found.missed[-2:].tolist() == [3, 5]
    assert found.overdue[-2:].tolist() == [True, False]
    network_nights = np.ones(12, bool)
    network_nights[9:] = False
    found = follow_presence(history_of(rows), network_nights, RULES)
    assert found.missed[-2:].tolist() == [0, 2]
