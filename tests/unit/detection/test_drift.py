"""Which sites moved, in what, and since when; and that a site that has not is left alone."""

from typing import NamedTuple

import numpy as np
import pytest

from leakdet.detection.drift import FEWEST, Drift, find_drift

SITES, DAYS, PER_DAY, BANDS = 4, 10, 6, 12
FIRST_DAY = np.datetime64("2026-05-01")


class History(NamedTuple):
    bands: np.ndarray
    scores: np.ndarray
    sites: np.ndarray
    recorded_at: np.ndarray
    training: np.ndarray
    validation: np.ndarray

    def at(self, site: str, from_day: int) -> np.ndarray:
        """Rows of a site from a day on."""
        return (self.sites == site) & (self.recorded_at >= FIRST_DAY + from_day)


def undated(made: History) -> History:
    return made._replace(recorded_at=np.full_like(made.recorded_at, "NaT"))


def history(seed: int, day_db: float = 0.0) -> History:
    """Sites that differ by 3 dB, recordings by 2 dB and days by `day_db`, as in training."""
    rng = np.random.default_rng(seed)
    rows = SITES * DAYS * PER_DAY
    site, day = np.arange(rows) % SITES, np.arange(rows) // SITES % DAYS
    of_training = rng.normal(0, 3, (20, BANDS)).repeat(15, axis=0)
    bands = rng.normal(0, 3, (SITES, BANDS))[site] + rng.normal(0, 2, (rows, BANDS))
    bands += rng.normal(0, day_db, (SITES, DAYS, BANDS))[site, day] if day_db else 0.0
    minutes = rng.integers(0, 1440, rows).astype("timedelta64[m]")
    return History(
        bands,
        rng.beta(1, 4, rows),
        np.array([f"s{number}" for number in site]),
        (FIRST_DAY + day).astype("datetime64[s]") + minutes,
        of_training + rng.normal(0, 2, of_training.shape),
        rng.beta(1, 1, 200),
    )


@pytest.mark.parametrize("day_db", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("dated", [True, False])
def test_where_nothing_moved_at_least_95_of_100_calls_are_silent(
    day_db: float, dated: bool
) -> None:
    alarms = 0
    for seed in range(100):
        made = history(seed, day_db)
        found = find_drift(*made if dated else undated(made))
        assert (found.judged, found.undated) == (SITES, 0 if dated else SITES)
        alarms += bool(found.moves)
    assert alarms <= 5


@pytest.mark.parametrize("seed", range(5))
def test_a_shift_is_told_with_its_site_band_and_day(seed: int) -> None:
    made = history(seed)
    moved = made.at("s2", from_day=5)
    made.bands[moved, 7] -= 10.0
    (move,) = find_drift(*made).moves
    assert (move.site, move.band, move.since) == ("s2", 7, FIRST_DAY + 5)
    assert (move.recordings, move.more) == (moved.sum(), 0)
    assert -12 < move.shift < -8
    assert move.before == pytest.approx(
        float(np.median(made.bands[~moved & (made.sites == "s2"), 7]))
    )


def test_scores_that_jump_are_told_as_scores() -> None:
    made = history(0)
    made.scores[moved := made.at("s1", from_day=4)] = 0.97
    (move,) = find_drift(*made).moves
    assert (move.site, move.band, move.since) == ("s1", None, FIRST_DAY + 4)
    assert move.before + move.shift == pytest.approx(0.97)
    assert move.recordings == moved.sum()
    assert find_drift(*made._replace(validation=None)).moves == []  # no scale: not compared


def test_a_site_that_always_sounded_otherwise_is_compared_with_training() -> None:
    made = history(0)
    made.bands[made.sites == "s3", 2:5] += 30.0
    for told in (made, undated(made)):
        (move,) = find_drift(*told).moves
        assert (move.site, move.since, move.more) == ("s3", None, 2)
        assert move.band in (2, 3, 4)
        assert 20 < move.shift < 40


def test_few_recordings_and_blank_sites_tell_nothing() -> None:
    made = history(0)
    few = np.flatnonzero(made.sites == "s0")[FEWEST - 1 :]
    made.sites[few] = ""
    found = find_drift(*made)
    assert found == Drift([], judged=SITES - 1, too_few=1)
    made.sites[:] = ""
    assert find_drift(*made) == Drift()


@pytest.mark.parametrize("days", [1, 2, 3])
def test_few_days_prove_nothing(days: int) -> None:
    """Two days differ in any case; what changes from one to the next is no sign of drift."""
    made = history(0, day_db=2.0)
    day = np.arange(len(made.sites)) % days
    made.bands[day == days - 1, 7] += 9.0
    recorded_at = (FIRST_DAY + day).astype("datetime64[s]")
    found = find_drift(*made._replace(recorded_at=recorded_at))
    assert [move.since for move in found.moves if move.since is not None] == []


def test_equal_values_are_no_difference() -> None:
    made = history(0)
    made.bands[:], made.training[:], made.scores[:] = 1.0, 1.0, 0.5
    assert find_drift(*made).moves == []
