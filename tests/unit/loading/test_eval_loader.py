"""Validation counts every recording once, on any number of ranks."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leakdet.errors import InputError
from leakdet.loading.eval_loader import EvalLoader, recording_shares
from leakdet.loading.in_memory import InMemorySamples
from leakdet.loading.samples import Batch


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    windows=st.lists(st.integers(1, 40), min_size=2, max_size=9),
    world=st.integers(1, 4),
    in_memory=st.booleans(),
    unit=st.sampled_from(["window", "segment"]),
)
def test_evaluation_counts_every_recording_once_on_one_rank(
    stores: SimpleNamespace,
    numbers: Callable[[list[Batch]], list[int]],
    windows: list[int],
    world: int,
    in_memory: bool,
    unit: str,
) -> None:
    world = min(world, len(windows))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("leakdet.loading.eval_loader.WINDOWS", 7)
        labels = [row % 2 for row in range(len(windows))]
        samples = stores.samples_of(Path(folder), windows, labels, unit)
        memory = InMemorySamples(samples) if in_memory else None
        loaders = [EvalLoader(samples, memory, rank, world) for rank in range(world)]
        of_ranks = [list(loader) for loader in loaders]
        assert len({len(loader) for loader in loaders}) == 1
        assert [len(batches) for batches in of_ranks] == [len(loader) for loader in loaders]
        everything = [batch for batches in of_ranks for batch in batches]
        step = stores.signal.segments // samples.per_window
        assert numbers(everything) == [step * number for number in range(len(samples))]
        owners = [
            set(torch.cat([batch.recording for batch in batches]).tolist()) for batches in of_ranks
        ]
        assert sum(map(len, owners)) == len(windows)


def test_evaluation_refuses_more_processes_than_recordings(
    stores: SimpleNamespace, tmp_path: Path
) -> None:
    samples = stores.samples_of(tmp_path, [1, 1], [0, 1], "window")
    with pytest.raises(InputError, match="2 recordings for 3 processes"):
        EvalLoader(samples, None, 0, 3)


def test_recording_shares_are_even_in_windows() -> None:
    shares = recording_shares(np.full(100, 10), 4)
    assert shares.tolist() == [0, 25, 50, 75, 100]
    assert recording_shares(np.array([1000, 1, 1]), 3).tolist() == [0, 1, 2, 3]


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=12), st.integers(1, 12))
def test_every_rank_has_a_recording(windows: list[int], world: int) -> None:
    world = min(world, len(windows))
    shares = recording_shares(np.array(windows), world)
    assert (shares[0], shares[-1]) == (0, len(windows))
    assert (np.diff(shares) >= 1).all()
