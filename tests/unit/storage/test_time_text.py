"""Times as tables tell them."""

import numpy as np
import pytest

from leakdet.storage.time_text import iso_text, time_of


@pytest.mark.parametrize(
    ("text", "iso", "utc"),
    [
        ("2026-12-02", "2026-12-02", "2026-12-02T00:00:00"),
        ("2026-12-02T03:10", "2026-12-02T03:10:00", "2026-12-02T03:10:00"),
        ("2026-12-02 03:10:05+02:00", "2026-12-02T03:10:05+02:00", "2026-12-02T01:10:05"),
        ("02.12.2026", "2026-12-02", "2026-12-02T00:00:00"),
        ("2.12.2026 3:10", "2026-12-02T03:10:00", "2026-12-02T03:10:00"),
        ("2.12.2026 3:10:05", "2026-12-02T03:10:05", "2026-12-02T03:10:05"),
    ],
)
def test_a_time_keeps_its_exactness_and_offset(text: str, iso: str, utc: str) -> None:
    assert iso_text(text) == iso
    assert str(time_of(text)) == str(time_of(iso)) == utc


@pytest.mark.parametrize("text", ["", "12/02/2026", "31.02.2026", "03:10", "yesterday"])
def test_what_may_mean_several_things_is_no_time(text: str) -> None:
    assert iso_text(text) is None
    assert np.isnat(time_of(text))
