import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakdet.detection.ranking import checked_scores, rank
from leakdet.errors import InputError

PAIRS = st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=1, max_size=40)


def arrays(pairs: list[tuple[int, bool]]) -> tuple[np.ndarray, np.ndarray]:
    scores, is_leak = zip(*pairs, strict=True)
    return np.array(scores) / 8, np.array(is_leak)


@given(PAIRS)
def test_a_cut_counts_what_its_threshold_calls_a_leak(pairs: list[tuple[int, bool]]):
    scores, is_leak = arrays(pairs)
    ranking = rank(scores, is_leak)
    cuts = ranking.cuts()
    for threshold in [*np.unique(scores), 1.1]:
        called = scores >= threshold
        cut = ranking.cut(float(threshold))
        assert cuts.tp[0, cut] == (called & is_leak).sum()
        assert cuts.fp[0, cut] == (called & ~is_leak).sum()
    assert (cuts.positives[0], cuts.negatives[0]) == (is_leak.sum(), (~is_leak).sum())


@given(PAIRS, st.integers(0, 1000))
def test_weights_count_as_repeated_rows_would(pairs: list[tuple[int, bool]], seed: int):
    scores, is_leak = arrays(pairs)
    weights = np.random.default_rng(seed).integers(0, 4, len(scores))
    ranking = rank(scores, is_leak)
    weighted = ranking.cuts(weights[ranking.order][None])
    repeated, labels = np.repeat(scores, weights), np.repeat(is_leak, weights)
    for cut, score in enumerate(ranking.distinct.tolist(), 1):
        called = repeated >= score
        assert weighted.tp[0, cut] == (called & labels).sum()
        assert weighted.fp[0, cut] == (called & ~labels).sum()


def test_leaks_come_first_among_equal_scores_in_any_order_of_rows():
    ranking = rank(np.array([0.5, 0.5, 0.9]), np.array([False, True, False]))
    assert ranking.order.tolist() == [2, 1, 0]
    assert ranking.is_leak.tolist() == [False, True, False]
    assert ranking.ends.tolist() == [1, 3]
    assert ranking.leak_cuts.tolist() == [2]


@pytest.mark.parametrize("bad", [np.nan, -0.1, 1.5, np.inf])
def test_a_score_that_is_no_probability_is_named_with_its_row(bad: float):
    with pytest.raises(InputError, match=r"row 1 .*1 of 3 rows"):
        checked_scores(np.array([0.5, bad, 0.5]))
    if np.isfinite(bad):
        assert checked_scores(np.array([bad]), probabilities=False).tolist() == [bad]
