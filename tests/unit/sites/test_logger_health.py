"""Facts on the loggers."""

import pytest
from tests.unit.sites.conftest import network, night_rows, only

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
        ({"decision": "undecided", "reason": "silent"}, "silent: 1 of 1 recording without sound"),
        (
            {"decision": "undecided", "reason": "stuck"},
            "spoilt: 1 of 1 recording short, stuck or with dropouts",
        ),
        (
            {"decision": "", "error": "damaged"},
            "failed: 1 of 1 recording that could not be read",
        ),
        ({"flags": "clipped"}, "clipped: 1 of 1 recording"),
        ({"source_rate_hz": "8000"}, "other rate: 8000 Hz, before 16000 Hz"),
    ],
)
def test_facts_of_the_last_night(columns: dict[str, str], fact: str) -> None:
    late = night_rows("A", [Q] * 12, **columns)[11:]
    assert facts(night_rows("A", [Q] * 11), late) == (fact,)


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
