"""The numbering of a split's samples, and batches of them."""

from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from leakdet.loading.samples import SplitSamples, take_rows

WINDOWS, LABELS = [3, 1, 7, 2], [0, 1, 1, 0]


@pytest.fixture(scope="module")
def segments(stores: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> SplitSamples:
    return stores.samples_of(tmp_path_factory.mktemp("store"), WINDOWS, LABELS, "segment")


@given(st.integers(0, 25), st.integers(1, 26))
def test_a_batch_has_the_samples_from_start_to_stop(
    segments: SplitSamples, start: int, count: int
) -> None:
    stop = min(start + count, len(segments))
    batch = segments.batch(start, stop)
    owner = np.repeat(np.arange(len(WINDOWS)), np.multiply(WINDOWS, segments.per_window))
    assert batch.mel.shape == (stop - start, *segments.shape)
    assert batch.mel[:, 0, 0, 0].tolist() == list(range(start, stop))
    assert batch.recording.tolist() == owner[start:stop].tolist()
    assert batch.class_id.tolist() == np.take(LABELS, owner[start:stop]).tolist()
    weights = segments.weight_of_recording[owner[start:stop]]
    assert batch.weight.tolist() == weights.tolist()


def test_classes_are_counted_in_samples_and_weighted_by_them(segments: SplitSamples) -> None:
    assert segments.class_counts().tolist() == [10, 16]
    assert segments.class_counts(3).tolist() == [10, 16, 0]
    weights = segments.weight_of_recording
    means = [
        np.average(weights[[0, 3]], weights=[3, 2]),
        np.average(weights[[1, 2]], weights=[1, 7]),
    ]
    assert segments.mean_weights(3).tolist() == pytest.approx([*means, 1.0])


def test_a_window_is_a_sample_or_one_for_each_segment(
    stores: SimpleNamespace, segments: SplitSamples
) -> None:
    windows = SplitSamples(segments.split, segments.class_of_recording, "window")
    assert (len(windows), len(segments)) == (13, 26)
    assert windows.shape == (stores.signal.segments, stores.signal.n_mels, 1)
    assert segments.shape == (1, stores.signal.n_mels, 1)


@given(st.lists(st.integers(0, 9)), st.sampled_from([torch.float16, torch.float32, torch.int64]))
def test_rows_are_taken_in_any_order(index: list[int], dtype: torch.dtype) -> None:
    table = torch.arange(60).reshape(10, 3, 2).to(dtype)
    rows = torch.tensor(index, dtype=torch.int64)
    assert torch.equal(take_rows(table, rows), table[rows])


def test_little_is_sent_to_a_worker(stores: SimpleNamespace, tmp_path: Path) -> None:
    samples = stores.samples_of(tmp_path, WINDOWS, LABELS, "window")
    _ = samples.split.mel.parts[0].mapped, samples.weight_of_recording
    assert len(bytes(ForkingPickler.dumps(samples))) < 20_000
