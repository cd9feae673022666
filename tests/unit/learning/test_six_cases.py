"""The rule of six cases."""

import numpy as np
import pytest

from leakdet.learning.six_cases import CASES, case_of, kept_windows, rounds_of, trains_as_leak


@pytest.mark.parametrize(
    ("verified", "predicted", "case", "leak"),
    [
        (True, True, "verified leak, found", True),
        (True, False, "verified leak, missed", True),
        (False, True, "verified normal, false alarm", False),
        (False, False, "verified normal", False),
        (None, True, "unverified, predicted leak", True),
        (None, False, "unverified, predicted normal", False),
    ],
)
def test_a_verification_outranks_a_prediction(
    verified: bool | None, predicted: bool, case: str, leak: bool
) -> None:
    assert case_of(verified, predicted) == case
    assert case in CASES
    assert trains_as_leak(verified, predicted) == leak


@pytest.mark.parametrize(
    ("keep", "leak", "kept"),
    [
        (0.5, True, [1, 3, 4]),  # half of five, rounded up
        (0.5, False, [0, 2, 3]),
        (0.6, True, [1, 3, 4]),  # not four, by rounding of 0.6 * 5
        (0.01, True, [1]),
        (0.01, False, [2]),
        (1.0, True, [0, 1, 2, 3, 4]),
    ],
)
def test_the_windows_most_like_the_label_are_kept_by_rank(
    keep: float, leak: bool, kept: list[int]
) -> None:
    low = 1e-3 * np.array([2, 9, 1, 3, 4.0])  # all far below any threshold
    mask = kept_windows(low, np.array([0, 5]), np.array([leak]), keep)
    assert np.flatnonzero(mask).tolist() == kept


def test_each_recording_keeps_its_own_share() -> None:
    prob = np.array([0.1, 0.9, 0.5, 0.2])
    mask = kept_windows(prob, np.array([0, 1, 4]), np.array([True, False]), 0.5)
    assert mask.tolist() == [True, False, True, True]


def test_rounds_are_in_time_order_and_keep_a_day_together() -> None:
    times = np.array(["d2", "d1", "d3", "d1", "d4", "d2"])
    assert rounds_of(times, 3).tolist() == [1, 0, 2, 0, 2, 1]
    assert rounds_of(np.array(["", "", ""]), 3).tolist() == [0, 0, 0]
    assert rounds_of(np.array(["a", "b"]), 5).tolist() == [0, 1]
