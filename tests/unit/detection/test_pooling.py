from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit

from leakdet.detection.pooling import POOLINGS, check_pooling, pool, pool_classes, votes_needed
from leakdet.errors import InputError, SettingsError

RECORDINGS = st.lists(
    st.lists(st.floats(0.01, 0.99), min_size=1, max_size=9), min_size=1, max_size=6
)


@given(RECORDINGS, st.floats(0.01, 1.0))
def test_each_pooling_is_its_formula_on_each_recording(
    recordings: list[list[float]], fraction: float
):
    prob = np.concatenate([np.array(windows) for windows in recordings])
    offsets = np.concatenate([[0], np.cumsum([len(windows) for windows in recordings])])
    k = votes_needed(np.diff(offsets), fraction)
    expected = {
        "mean": [np.mean(windows) for windows in recordings],
        "logit_mean": [expit(np.mean(logit(windows))) for windows in recordings],
        "vote": [sorted(windows)[-count] for windows, count in zip(recordings, k, strict=True)],
    }
    for pooling in POOLINGS:
        np.testing.assert_allclose(pool(prob, offsets, pooling, fraction), expected[pooling])


@pytest.mark.parametrize(
    ("fraction", "windows", "votes"), [(0.1, 30, 3), (0.5, 3, 2), (1e-9, 5, 1), (1.0, 7, 7)]
)
def test_votes_are_the_fraction_rounded_up(fraction: float, windows: int, votes: int):
    assert votes_needed(np.array([windows]), fraction).tolist() == [votes]


def test_bad_settings_and_offsets_are_refused():
    with pytest.raises(SettingsError, match="median"):
        check_pooling("median", 0.5)
    with pytest.raises(SettingsError, match=r"vote_fraction is 0\.0"):
        check_pooling("vote", 0.0)
    prob = np.array([0.1, 0.2, 0.3])
    with pytest.raises(InputError, match=r"Recording 1 .* has no windows"):
        pool(prob, np.array([0, 2, 2, 3]), "mean")
    for offsets, message in (([0, 2], "0 to 3"), ([0, 2, 1, 3], "must not fall"), ([], "nothing")):
        with pytest.raises(ValueError, match=message):
            pool(prob, np.array(offsets, np.int64), "mean")
    assert pool(np.zeros(0), np.array([0]), "mean").tolist() == []


def test_classes_are_scaled_so_that_the_leaks_add_up_to_the_score() -> None:
    prob = np.array([[0.1, 0.2, 0.3, 0.4], [0.3, 0.2, 0.1, 0.4], [1.0, 0.0, 0.0, 0.0]], np.float32)
    score = np.array([0.9, 0.25])
    pooled = pool_classes(prob, np.array([0, 2, 3]), (1, 3), score)
    np.testing.assert_allclose(pooled.sum(axis=1), 1)
    np.testing.assert_allclose(pooled[:, [1, 3]].sum(axis=1), score)
    mean = prob[:2].mean(axis=0)
    np.testing.assert_allclose(pooled[0, 1] / pooled[0, 3], mean[1] / mean[3], rtol=1e-6)
    np.testing.assert_allclose(pooled[1], [0.75, 0.125, 0.0, 0.125])  # an even share of nothing


def test_where_the_score_is_that_of_the_class_head_nothing_is_scaled() -> None:
    prob = np.random.default_rng(0).dirichlet(np.ones(5), 12)
    offsets = np.array([0, 3, 4, 12])
    score = pool(prob[:, [0, 4]].sum(axis=1), offsets, "mean")
    means = [prob[a:b].mean(axis=0) for a, b in pairwise(offsets)]
    np.testing.assert_allclose(pool_classes(prob, offsets, (0, 4), score), means)


def test_no_recordings_and_no_classes() -> None:
    assert pool_classes(np.zeros((0, 3)), np.array([0]), (1,), np.zeros(0)).shape == (0, 3)
    assert pool_classes(np.zeros((4, 0)), np.array([0, 4]), (), np.ones(1)).shape == (1, 0)
