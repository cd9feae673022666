from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakdet.training import sampling
from leakdet.training.sampling import SAMPLINGS, batch_bounds, drawn_mix, epoch_order, permutation

CLASSES = st.lists(st.integers(0, 3), min_size=1, max_size=80).map(np.array)


@given(CLASSES, st.sampled_from(SAMPLINGS), st.integers(0, 9), st.integers(0, 30))
def test_order_depends_on_seed_and_epoch_alone(class_id, sampling: str, seed: int, epoch: int):
    first = epoch_order(class_id, sampling, seed, epoch, 5)
    assert np.array_equal(first, epoch_order(class_id, sampling, seed, epoch, 5))
    assert set(first) <= set(range(len(class_id)))


@given(CLASSES)
def test_natural_visits_every_sample_once_in_a_new_order_each_epoch(class_id):
    orders = [epoch_order(class_id, "natural", 0, epoch) for epoch in range(3)]
    for order in orders:
        assert sorted(order) == list(range(len(class_id)))
    if len(class_id) > 8:
        assert not np.array_equal(orders[0], orders[1])


@given(CLASSES)
def test_balanced_draws_alike_and_spreads_over_the_members(class_id):
    order = epoch_order(class_id, "balanced", 0, 0)
    assert len(order) == len(class_id)
    drawn = Counter(class_id[order].tolist())
    assert max(drawn.values()) - min(drawn.values()) <= 1
    assert set(drawn) == set(class_id.tolist())
    for number in drawn:
        times = Counter(order[class_id[order] == number].tolist())
        visited = [times[member] for member in np.flatnonzero(class_id == number).tolist()]
        assert max(visited) - min(visited) <= 1


@given(CLASSES)
def test_oversampled_visits_the_most_frequent_class_once(class_id):
    order = epoch_order(class_id, "oversampled", 0, 0)
    counts = Counter(class_id.tolist())
    assert set(Counter(class_id[order].tolist()).values()) == {max(counts.values())}
    assert set(order.tolist()) == set(range(len(class_id)))


def test_curriculum_moves_from_balanced_to_natural():
    class_id = np.array([0] * 90 + [1] * 10)
    shares = [np.mean(class_id[epoch_order(class_id, "curriculum", 0, epoch, 4)]) for epoch in range(6)]
    assert shares == pytest.approx([0.5, 0.4, 0.3, 0.2, 0.1, 0.1])


@given(CLASSES, st.sampled_from(["natural", "balanced", "oversampled"]))
def test_the_mix_is_what_is_drawn(class_id, sampling: str):
    drawn = class_id[epoch_order(class_id, sampling, 0, 0)]
    expected = np.bincount(drawn, minlength=5) / len(drawn)
    np.testing.assert_allclose(drawn_mix(np.bincount(class_id, minlength=5), sampling), expected, atol=1e-12)


@given(st.integers(1, 1000), st.integers(1, 300))
def test_batches_are_few_and_alike(samples: int, batch_size: int):
    sizes = np.diff(batch_bounds(samples, batch_size))
    assert sizes.sum() == samples
    assert len(sizes) == -(-samples // batch_size)
    assert sizes.min() >= 1
    assert sizes.max() <= batch_size
    assert sizes.max() - sizes.min() <= 1


def test_many_numbers_are_sorted_by_random_keys_with_every_order_equally_likely(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(sampling, "KEYS_FROM", 1)
    rng = np.random.default_rng(0)
    orders = Counter(tuple(permutation(4, rng).tolist()) for _ in range(4800))
    assert len(orders) == 24
    chi_square = sum((count - 200) ** 2 / 200 for count in orders.values())
    assert chi_square < 60  # 23 degrees of freedom: p = 4e-5
    many = permutation(5000, rng)
    assert sorted(many.tolist()) == list(range(5000))
    assert abs(np.corrcoef(many, np.arange(5000))[0, 1]) < 0.06
