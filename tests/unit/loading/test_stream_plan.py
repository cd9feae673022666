"""Which recordings are read, and how often each of their samples is drawn."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from leakdet.config import DataConfig
from leakdet.loading.samples import SplitSamples
from leakdet.loading.stream_plan import StreamPlan, chunk_bounds

WINDOWS = [3, 1, 7, 2, 5, 1, 4]
LABELS = [0, 1, 1, 0, 1, 1, 1]


@pytest.fixture(scope="module")
def samples(stores: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> SplitSamples:
    return stores.samples_of(tmp_path_factory.mktemp("store"), WINDOWS, LABELS, "segment")


def drawn(plan: StreamPlan, low: int, high: int) -> list[int]:
    """The samples of the draws [low, high), as they lie in the split."""
    stretches = [stretch for block in plan.blocks(low, high) for stretch in block]
    return [
        int(number)
        for stretch in stretches
        for number in plan.drawn(stretch)[0] + plan.samples.offsets[stretch.first]
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
        for stretch in block:
            index, recording = plan.drawn(stretch)
            place = index + samples.offsets[stretch.first]
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
