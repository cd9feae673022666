from collections import Counter
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakdet.config import DataConfig
from leakdet.loading.order import (
    StreamPlan,
    batch_bounds,
    chunk_bounds,
    drawn_mix,
    epoch_order,
    share_sizes,
)
from leakdet.loading.samples import SplitSamples

SAMPLINGS = ("natural", "balanced", "oversampled", "curriculum")
CLASSES = st.lists(st.integers(0, 3), min_size=1, max_size=80).map(np.array)


def order_of(
    class_id: np.ndarray,
    sampling: str,
    seed: int,
    epoch: int,
    curriculum_epochs: int = 1,
    size: int = 1,
) -> np.ndarray:
    """The epoch of recordings of these classes that have `size` samples each."""
    data = DataConfig(sampling=sampling, curriculum_epochs=curriculum_epochs)
    return epoch_order(class_id, np.full(len(class_id), size), data, seed, epoch)


@given(CLASSES, st.sampled_from(SAMPLINGS), st.integers(0, 9), st.integers(0, 30))
def test_order_depends_on_seed_and_epoch_alone(class_id, sampling: str, seed: int, epoch: int):
    first = order_of(class_id, sampling, seed, epoch, 5)
    assert np.array_equal(first, order_of(class_id, sampling, seed, epoch, 5))
    assert set(first) <= set(range(len(class_id)))


@given(CLASSES)
def test_natural_visits_every_sample_once_in_a_new_order_each_epoch(class_id):
    orders = [order_of(class_id, "natural", 0, epoch) for epoch in range(3)]
    for order in orders:
        assert sorted(order) == list(range(len(class_id)))
    if len(class_id) > 8:
        assert not np.array_equal(orders[0], orders[1])


@given(CLASSES)
def test_balanced_draws_alike_and_spreads_over_the_members(class_id):
    order = order_of(class_id, "balanced", 0, 0)
    assert len(order) == len(class_id)
    drawn = Counter(class_id[order].tolist())
    assert max(drawn.values()) - min(drawn.values()) <= 1
    assert set(drawn) == set(class_id.tolist())
    for number in drawn:
        times = Counter(order[class_id[order] == number].tolist())
        visited = [times[member] for member in np.flatnonzero(class_id == number).tolist()]
        assert max(visited) - min(visited) <= 1


@given(CLASSES, st.sampled_from(SAMPLINGS), st.integers(1, 4))
def test_the_samples_of_a_class_come_equally_often(class_id, sampling: str, size: int):
    order = order_of(class_id, sampling, 5, 1, 3, size)
    visits = np.bincount(order, minlength=len(class_id) * size)
    class_of_sample = np.repeat(class_id, size)
    for number in set(class_id.tolist()):
        assert np.ptp(visits[class_of_sample == number]) <= 1
    if sampling == "natural":
        assert set(visits) == {1}


@given(CLASSES)
def test_oversampled_visits_the_most_frequent_class_once(class_id):
    order = order_of(class_id, "oversampled", 0, 0)
    counts = Counter(class_id.tolist())
    assert set(Counter(class_id[order].tolist()).values()) == {max(counts.values())}
    assert set(order.tolist()) == set(range(len(class_id)))


def test_curriculum_moves_from_balanced_to_natural():
    class_id = np.array([0] * 90 + [1] * 10)
    shares = [
        np.mean(class_id[order_of(class_id, "curriculum", 0, epoch, 4)]) for epoch in range(6)
    ]
    assert shares == pytest.approx([0.5, 0.4, 0.3, 0.2, 0.1, 0.1])


@given(CLASSES, st.sampled_from(["natural", "balanced", "oversampled"]))
def test_the_mix_is_what_is_drawn(class_id, sampling: str):
    drawn = class_id[order_of(class_id, sampling, 0, 0)]
    expected = np.bincount(drawn, minlength=5) / len(drawn)
    np.testing.assert_allclose(
        drawn_mix(np.bincount(class_id, minlength=5), DataConfig(sampling=sampling)),
        expected,
        atol=1e-12,
    )


@given(st.integers(1, 1000), st.integers(1, 300))
def test_batches_are_few_and_alike(samples: int, batch_size: int):
    sizes = np.diff(batch_bounds(samples, batch_size))
    assert sizes.sum() == samples
    assert len(sizes) == -(-samples // batch_size)
    assert sizes.min() >= 1
    assert sizes.max() <= batch_size
    assert sizes.max() - sizes.min() <= 1


@given(st.integers(1, 1000), st.integers(1, 300), st.integers(1, 8))
def test_every_rank_has_a_share_of_every_batch(samples: int, batch_size: int, world: int):
    world = min(world, samples)
    bounds = batch_bounds(samples, batch_size, world)
    shares = np.array([share_sizes(bounds, rank, world) for rank in range(world)])
    assert shares.sum(axis=0).tolist() == np.diff(bounds).tolist()
    assert shares.min() >= 1
    assert np.ptp(shares, axis=0).max() <= 1


WINDOWS = [3, 1, 7, 2, 5, 1, 4]
LABELS = [0, 1, 1, 0, 1, 1, 1]


@pytest.fixture(scope="module")
def samples(stores: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> SplitSamples:
    return stores.samples_of(tmp_path_factory.mktemp("store"), WINDOWS, LABELS, "segment")


def drawn(plan: StreamPlan, low: int, high: int) -> list[int]:
    """The samples of the draws [low, high), as they lie in the split."""
    ranges = [span for block in plan.blocks(low, high) for span in block]
    return [
        int(number)
        for span in ranges
        for number in plan.drawn(span)[0] + plan.samples.offsets[span.first]
    ]


def test_chunks_hold_whole_recordings_in_order() -> None:
    assert chunk_bounds(np.array([10, 10, 10, 100, 10]), 30).tolist() == [0, 3, 4, 5]
    assert chunk_bounds(np.array([100]), 30).tolist() == [0, 1]


@pytest.mark.parametrize("sampling", ["natural", "balanced", "oversampled"])
def test_parts_of_an_epoch_are_cut_to_the_draw(samples: SplitSamples, sampling: str) -> None:
    data = DataConfig(sampling=sampling)
    plan = StreamPlan(samples, data, seed=3, epoch=1)
    whole = drawn(plan, 0, 10**6)
    for cut in (0, 1, 7, len(whole)):
        assert drawn(plan, 0, cut) + drawn(plan, cut, 10**6) == whole


def test_in_time_all_samples_of_a_frequent_class_are_drawn(samples: SplitSamples) -> None:
    """Balanced, an epoch draws a part of it: not the same one each time."""
    data = DataConfig(sampling="balanced")
    epochs = [set(drawn(StreamPlan(samples, data, 0, epoch), 0, 10**6)) for epoch in range(30)]
    assert len(epochs[0]) < len(samples)
    assert set.union(*epochs) == set(range(len(samples)))


def test_a_sample_is_drawn_with_its_recording(samples: SplitSamples) -> None:
    plan = StreamPlan(samples, DataConfig(sampling="oversampled"), 0, 0)
    for block in plan.blocks(0, 10**6):
        for span in block:
            index, recording = plan.drawn(span)
            place = index + samples.offsets[span.first]
            expected = np.searchsorted(samples.offsets, place, side="right") - 1
            assert recording.tolist() == expected.tolist()


def test_a_block_is_what_half_of_the_buffer_holds(samples: SplitSamples) -> None:
    data = DataConfig()
    data.buffer_mb = 2 * 8 * samples.split.mel.window_bytes / 1e6  # blocks of 8 windows
    blocks = StreamPlan(samples, data, 0, 0).blocks(0, 10**6)
    offsets = samples.split.recording_offsets
    windows = [sum(int(offsets[s.last] - offsets[s.first]) for s in block) for block in blocks]
    assert sum(windows) == samples.split.windows
    assert max(windows) <= 8
    assert all(one + two > 7 for one, two in pairwise(windows))
