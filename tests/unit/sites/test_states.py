"""The state of a site by its own history: synthetic histories with a known story."""

from datetime import date, datetime

import numpy as np
import pytest
from tests.unit.sites.conftest import TODAY, network, night_rows, only, row

from leakdet.sites.make_worklist import make_worklist
from leakdet.sites.rules import WorklistRules

QUIET, LOUD = 0.1, 0.9


def test_a_pump_that_always_hums_is_no_news() -> None:
    found = only(network(30) + night_rows("pump", [LOUD] * 30, -50.0), "pump")
    assert found.state == "persistent"
    assert found.since == date(2026, 5, 1)
    assert (found.leak_nights, found.nights) == (30, 30)
    assert "as since its first nights, 2026-05-01: it always sounds so" in found.why


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
    assert found.why == "no alarm in its last 4 judged nights"
    found = only(network(28) + night_rows("A", scores[:28]), "A")
    assert found.why == "an alarm in 1 of its last 4 judged nights, none in the last 2"


def test_slow_growth_is_watched_by_its_level_before_the_score_tells_it() -> None:
    nights = 20
    levels = list(np.linspace(-70.0, -50.0, nights))
    found = only(network(nights) + night_rows("growth", [0.3] * nights, levels), "growth")
    assert found.state == "watch"
    assert found.why.startswith("no alarm in its last 4 judged nights, but louder, level 10 dB")


def test_an_old_sound_that_becomes_louder_is_news() -> None:
    levels = [-60.0] * 16 + [-50.0] * 4
    found = only(network(20) + night_rows("pump", [LOUD] * 20, levels), "pump")
    assert found.state == "new"
    assert "as since its first nights, but louder, level 10 dB above its own median" in found.why


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
    assert found.why == "heard, but never judged: 5 unlike the training recordings"
    assert "5 recordings met in training, which are no evidence" in only(rows, "B").why
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
