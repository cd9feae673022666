from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakdet.loading import permutation as shuffling
from leakdet.loading.permutation import LISTED_UP_TO, Shuffle

MANY = LISTED_UP_TO + 70_001


@given(st.integers(1, 3000), st.integers(0, 9), st.booleans())
def test_each_number_comes_once_and_depends_on_its_place_alone(count: int, seed: int, listed: bool):
    with pytest.MonkeyPatch.context() as patch:
        if not listed:
            patch.setattr(shuffling, "LISTED_UP_TO", 0)
        order = Shuffle(count, np.random.default_rng(seed)).at(np.arange(count))
        assert sorted(order.tolist()) == list(range(count))
        places = np.random.default_rng(1).integers(0, count, 50)
        again = Shuffle(count, np.random.default_rng(seed)).at(places)
    np.testing.assert_array_equal(again, order[places])


def test_each_order_of_few_numbers_is_equally_likely():
    rng = np.random.default_rng(0)
    orders = Counter(tuple(Shuffle(4, rng).at(np.arange(4)).tolist()) for _ in range(4800))
    assert len(orders) == 24
    # 23 degrees of freedom: p = 4e-5
    assert sum((times - 200) ** 2 / 200 for times in orders.values()) < 60


@pytest.mark.parametrize(("batch", "per_recording"), [(512, 2400), (8192, 30), (80_000, 40_000)])
def test_many_numbers_meet_in_batches_as_in_a_list_that_was_drawn(batch: int, per_recording: int):
    """The numbers of a recording in a batch are spread as the hypergeometric distribution says; after one round it is not."""
    owner = np.arange(MANY) // per_recording
    size = np.bincount(owner)
    squares = []
    for seed in range(4):
        order = Shuffle(MANY, np.random.default_rng(seed)).at(np.arange(MANY))
        for begin in range(0, MANY - batch + 1, batch):
            found = np.bincount(owner[order[begin : begin + batch]], minlength=len(size))
            share = size / MANY
            spread = batch * share * (1 - share) * (MANY - batch) / (MANY - 1)
            squares.append(np.mean((found - batch * share) ** 2 / spread))
    # each mean square is about 1 with a variance of 2 / recordings, as far as the recordings are independent
    deviation = np.sqrt(2 / len(size) / len(squares))
    assert abs(np.mean(squares) - 1) < 5 * deviation + 0.01


def test_neighbours_of_many_numbers_are_no_longer_neighbours():
    order = Shuffle(MANY, np.random.default_rng(3)).at(np.arange(MANY))
    assert np.count_nonzero(np.abs(np.diff(order)) == 1) < 12  # 2 are expected
    assert abs(np.corrcoef(order, np.arange(MANY))[0, 1]) < 5 / np.sqrt(MANY)
    other = Shuffle(MANY, np.random.default_rng(4)).at(np.arange(MANY))
    assert np.count_nonzero(order == other) < 12  # 1 is expected
