"""Times of the new recordings."""

import numpy as np
import pytest

from leakdet.learning.recorded_times import recorded_times, time_notes


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-12-02", "2026-12-02T00:00:00"),
        ("2026-12-02T03:10", "2026-12-02T03:10:00"),
        ("2026-12-02 03:10:05+02:00", "2026-12-02T01:10:05"),
        ("02.12.2026", "2026-12-02T00:00:00"),
        ("2.12.2026 3:10", "2026-12-02T03:10:00"),
        ("12/02/2026", "NaT"),
        ("", "NaT"),
    ],
)
def test_a_time_is_read_where_it_can_mean_one_thing_only(text: str, time: str) -> None:
    (found,) = recorded_times({"recorded_at": np.array([text])}, 1)
    assert str(found) == time


def test_what_is_not_understood_is_named() -> None:
    groups = {"recorded_at": np.array(["12/02/2026", "2026-12-02", ""])}
    (note,) = time_notes(groups)
    assert note.startswith("recorded_at 12/02/2026 is not understood and counts as unknown")
    assert time_notes({"recorded_at": np.array(["2026-12-02", ""])}) == []
    assert time_notes({"site": np.array(["a"])}) == []


def test_the_first_column_counts_that_tells_a_time() -> None:
    groups = {"time": np.array(["03:10"]), "date": np.array(["2026-12-02"])}
    assert str(recorded_times(groups, 1)[0]) == "2026-12-02T00:00:00"
    assert time_notes(groups) == []
    assert np.isnat(recorded_times({"site": np.array(["a"])}, 1)).all()
