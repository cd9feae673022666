"""The rows of the work list."""

from datetime import datetime

from tests.unit.sites.conftest import network, night_rows, only

from leakdet.sites.rules import WorklistRules
from leakdet.sites.worklist_row import Recording


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
