"""One score of a night from those of its recordings."""

import numpy as np

from leakdet.sites.night_pooling import pooled


def test_the_upper_median_of_each_cell() -> None:
    scores = np.array([0.9, 0.1, 0.5, 0.2, 0.8, 0.3])
    cell = np.array([0, 0, 0, 1, 1, 3])
    found = pooled(scores, cell, (2, 2))
    np.testing.assert_array_equal(found, [[0.5, 0.8], [np.nan, 0.3]])


def test_it_reaches_a_threshold_exactly_where_half_of_the_recordings_do() -> None:
    rng = np.random.default_rng(1)
    scores, cell = rng.random(2000), np.sort(rng.integers(0, 300, 2000))
    score = pooled(scores, cell, (300, 1))[:, 0]
    for threshold in (0.3, 0.5, 0.7):
        hits = np.bincount(cell, scores >= threshold, 300)
        half = 2 * hits >= np.bincount(cell, minlength=300)
        known = ~np.isnan(score)
        np.testing.assert_array_equal((score >= threshold)[known], half[known])
