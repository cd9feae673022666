import re
from datetime import date, datetime

import numpy as np
import pytest
from tests.unit.sites.conftest import TODAY, network, night_rows, only, row
from tests.unit.sites.test_nights import history_of

from leakdet.sites.rules import WorklistRules
from leakdet.sites.states import (
    STATES,
    Recording,
    WorklistRow,
    follow_alarms,
    follow_levels,
    follow_presence,
)
from leakdet.sites.worklist import make_worklist


def worklist_row() -> WorklistRow:
    return WorklistRow(
        site="A",
        state="watch",
        why="an alarm in 1 of 2 nights",
        nights=2,
        leak_nights=1,
        since=None,
        score=0.9,
        median_score=0.2,
        level_dbfs=-60.0,
        median_level_dbfs=None,
        familiarity=None,
        trend=(None, 0.2, 0.9),
        health=(),
        worth=None,
        leak_share=None,
        leak_share_interval=None,
        lat=None,
        lon=None,
        columns={"logger": "7"},
        recordings=(Recording("a.wav", None, 0.9, "leak", -60.0),),
    )


def test_the_states_are_those_that_the_page_groups_by() -> None:
    assert STATES == ("new", "persistent", "ceased", "watch", "quiet", "silent logger", "broken")


def test_a_row_compares_by_its_values() -> None:
    assert worklist_row() == worklist_row()
    assert worklist_row().state in STATES


RULES = WorklistRules()
T, F = 0.9, 0.1


def alarms_of(*scores: float | None) -> dict[str, int]:
    found = follow_alarms(history_of(night_rows("A", scores)), RULES)
    return {name: values[0].item() for name, values in vars(found).items()}


def test_a_run_of_alarms_begins_after_two_nights_without_one() -> None:
    found = alarms_of(T, F, F, F, T, F, T, T)
    assert (found["since"], found["onset"], found["nights_before"]) == (4, True, 4)
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


Q = 0.1


def facts(*rows: list, nights: int = 12) -> tuple[str, ...]:
    return only(network(nights) + [one for some in rows for one in some], "A").health


def test_a_sound_logger_has_no_fact() -> None:
    assert facts(night_rows("A", [Q] * 12)) == ()
    assert facts(night_rows("A", [None] * 8 + [Q] * 4)) == ()  # installed later


def test_missing_now_or_often() -> None:
    assert facts(night_rows("A", [Q] * 11 + [None])) == ("missing for 1 night",)
    assert facts(night_rows("A", [Q, None, None, Q] * 3)) == ("missing in 6 of 12 nights",)


@pytest.mark.parametrize(
    ("columns", "fact"),
    [
        ({"decision": "undecided", "reason": "silent"}, "silent: 1 of 1 "),
        (
            {"decision": "undecided", "reason": "stuck"},
            "spoilt: 1 of 1 ",
        ),
        (
            {"decision": "", "error": "damaged"},
            "failed: 1 of 1 ",
        ),
        ({"flags": "clipped"}, "clipped: 1 of 1 "),
        ({"source_rate_hz": "8000"}, "other rate: 8000 Hz"),
    ],
)
def test_facts_of_the_last_night(columns: dict[str, str], fact: str) -> None:
    late = night_rows("A", [Q] * 12, **columns)[11:]
    (found,) = facts(night_rows("A", [Q] * 11), late)
    assert found.startswith(fact)


def test_a_level_far_from_its_history_on_either_side() -> None:
    assert facts(night_rows("A", [Q] * 12, [-70.0] * 11 + [-95.0])) == (
        "level far: 25 dB below its own median",
    )
    assert facts(night_rows("A", [Q] * 12, [-70.0] * 11 + [-50.0])) == (
        "level far: 20 dB above its own median",
    )


def test_another_logger_is_said_and_its_level_is_not_compared() -> None:
    old = night_rows("A", [Q] * 8, -40.0, logger="1")
    new = night_rows("A", [None] * 8 + [Q] * 4, -70.0, logger="2")
    assert facts(old, new) == ("logger changed on 2026-05-09: levels count from there",)


QUIET, LOUD = 0.1, 0.9


def test_a_pump_that_always_hums_is_no_news() -> None:
    found = only(network(30) + night_rows("pump", [LOUD] * 30, -50.0), "pump")
    assert found.state == "persistent"
    assert found.since == date(2026, 5, 1)
    assert (found.leak_nights, found.nights) == (30, 30)
    assert "since its first nights, 2026-05-01" in found.why


def test_a_burst_that_starts_on_night_5_is_new_from_the_third_alarm_on() -> None:
    scores, levels = [QUIET] * 4 + [LOUD] * 3, [-70.0] * 4 + [-61.0] * 3
    found = only(network(7) + night_rows("burst", scores, levels), "burst")
    assert (found.state, found.since) == ("new", date(2026, 5, 5))
    assert (found.leak_nights, found.nights) == (3, 7)
    assert (found.score, found.median_score) == (LOUD, QUIET)
    assert (found.level_dbfs, found.median_level_dbfs) == (-61.0, None)  # of four nights
    assert found.why == (
        "an alarm in 3 of its last 4 judged nights, the first on 2026-05-05 after 4 earlier nights"
    )
    for nights in (5, 6):  # one or two alarms may be a passing sound
        early = only(network(nights) + night_rows("burst", scores[:nights], levels), "burst")
        assert (early.state, early.since) == ("watch", date(2026, 5, 5))


def test_a_burst_is_new_for_two_weeks_and_persistent_after() -> None:
    for nights, state in ((18, "new"), (19, "persistent")):
        rows = network(nights) + night_rows("burst", [QUIET] * 4 + [LOUD] * (nights - 4))
        found = only(rows, "burst")
        assert (found.state, found.since) == (state, date(2026, 5, 5))


def test_a_leak_is_found_though_the_model_misses_a_night_of_four() -> None:
    scores = [QUIET] * 6 + [LOUD, LOUD, QUIET, LOUD]
    assert only(network(10) + night_rows("A", scores), "A").state == "new"
    scores = [QUIET] * 6 + [LOUD, QUIET, LOUD, QUIET]
    assert only(network(10) + night_rows("A", scores), "A").state == "watch"


def test_single_false_alarms_are_no_suspicion() -> None:
    scores = [LOUD if night % 5 == 0 else QUIET for night in range(30)]
    found = only(network(30) + night_rows("A", scores), "A")
    assert (found.state, found.leak_nights) == ("quiet", 6)
    assert re.search("^no alarm in its last 4 [^,]*$", found.why)
    found = only(network(28) + night_rows("A", scores[:28]), "A")
    assert re.search("^an alarm in 1 of its last 4 .*last 2$", found.why)


def test_slow_growth_is_watched_by_its_level_before_the_score_tells_it() -> None:
    nights = 20
    levels = list(np.linspace(-70.0, -50.0, nights))
    found = only(network(nights) + night_rows("growth", [0.3] * nights, levels), "growth")
    assert found.state == "watch"
    assert re.search("^no alarm in its last 4 .*, but louder, level 10 dB", found.why)


def test_an_old_sound_that_becomes_louder_is_news() -> None:
    levels = [-60.0] * 16 + [-50.0] * 4
    found = only(network(20) + night_rows("pump", [LOUD] * 20, levels), "pump")
    assert found.state == "new"
    assert "since its first nights, 2026-05-01, but louder, level 10 dB" in found.why


def test_a_sound_of_most_nights_that_pauses_is_no_news() -> None:
    nights = [LOUD if letter == "A" else QUIET for letter in "AAAAAAAAAA.AAAAA..AAAAA..A.AAA"]
    found = only(network(30) + night_rows("pump", nights), "pump")
    assert (found.state, found.list_name, found.leak_nights) == ("persistent", "backlog", 24)
    assert found.since == date(2026, 5, 26)
    assert "10 of the 14 " in found.why
    assert "first" not in found.why
    again = only(network(30) + night_rows("A", [LOUD] * 8 + [QUIET] * 18 + [LOUD] * 4), "A")
    assert (again.state, again.list_name) == ("new", "news")  # after two quiet weeks
    assert "none of the 14 " in again.why


def test_a_repaired_leak_has_ceased_and_is_quiet_two_weeks_later() -> None:
    story = [QUIET] * 5 + [LOUD] * 6
    found = only(network(14) + night_rows("A", story + [QUIET] * 3), "A")
    assert (found.state, found.since) == ("ceased", None)
    assert "its last alarm on 2026-05-11" in found.why
    assert only(network(30) + night_rows("A", story + [QUIET] * 19), "A").state == "quiet"


def test_a_logger_that_dies_is_silent_after_three_nights() -> None:
    for lost, state in ((1, "quiet"), (2, "quiet"), (3, "silent logger")):
        rows = network(12) + night_rows("A", [QUIET] * (12 - lost) + [None] * lost)
        assert only(rows, "A").state == state
    assert only(rows, "A").why == "no recording since 2026-05-09, in 3 nights of the network"


def test_a_logger_that_reports_every_third_night_is_not_silent_between() -> None:
    scores = [QUIET if night % 3 == 0 else None for night in range(16)] + [None] * 4
    assert only(network(20) + night_rows("A", scores), "A").state == "quiet"


@pytest.mark.parametrize(
    ("columns", "state", "why"),
    [
        ({"decision": "undecided", "reason": "silent"}, "silent logger", "no sound in its"),
        ({"decision": "undecided", "reason": "stuck"}, "broken", "1 short, stuck or with"),
        ({"decision": "", "error": "damaged"}, "broken", "1 could not be read"),
    ],
)
def test_recordings_without_usable_sound_make_a_silent_or_broken_logger(
    columns: dict[str, str], state: str, why: str
) -> None:
    rows = network(10) + night_rows("A", [QUIET] * 7)
    late = night_rows("A", [QUIET] * 10, **columns, leak_prob="")[7:]
    found = only(rows + late, "A")
    assert found.state == state
    assert why in found.why
    assert only(rows + late[:1] + night_rows("A", [QUIET] * 10)[8:], "A").state == "quiet"


def test_what_was_not_judged_is_watched_and_said() -> None:
    rows = network(5) + night_rows("A", [LOUD] * 5, decision="undecided", reason="unfamiliar")
    rows += night_rows("B", [LOUD] * 5, flags="met_in_training")
    rows += night_rows("C", [QUIET] * 2)
    rows += night_rows("C", [None, None] + [QUIET] * 3, decision="undecided", reason="unfamiliar")
    found = only(rows, "A")
    assert (found.state, found.nights, found.chance) == ("watch", 0, None)
    assert re.search("^heard, but never judged: 5 unlike", found.why)
    assert "5 recordings met in training" in only(rows, "B").why
    assert "not since 2026-05-02 judged" in only(rows, "C").why


def test_a_site_with_one_recording_is_watched_or_quiet() -> None:
    for score, state in ((LOUD, "watch"), (QUIET, "quiet")):
        found = only(
            [*network(10), row("A", datetime.fromisoformat("2026-05-10T03:00"), score)], "A"
        )
        assert (found.state, found.nights, found.median_score) == (state, 1, None)
        assert "its last judged night" in found.why


def test_a_night_of_rain_that_raises_all_sites_counts_for_none() -> None:
    nights, wet = 12, 9
    rows = []
    for site in range(30):
        scores = [QUIET] * nights
        levels = [-70.0] * nights
        scores[wet], levels[wet] = LOUD, -58.0
        rows += night_rows(f"S{site}", scores, levels)
    worklist = make_worklist(rows, today=TODAY)
    assert {one.state for one in worklist.rows} == {"quiet"}
    assert {one.leak_nights for one in worklist.rows} == {0}
    assert any("1 night (2026-05-10): a common cause" in note for note in worklist.notes)
    dry = [one for one in rows if one["site"] != "S0"]
    dry += night_rows("S0", [QUIET] * 8 + [LOUD] * 4, [-70.0] * 8 + [-60.0] * 4)
    assert only(dry, "S0").state == "new"  # of the three other nights


def test_parameters_move_the_rule() -> None:
    rows = network(7) + night_rows("A", [QUIET] * 5 + [LOUD] * 2)
    assert only(rows, "A").state == "watch"
    assert only(rows, "A", rules=WorklistRules(alarms=2, of_nights=2)).state == "new"
