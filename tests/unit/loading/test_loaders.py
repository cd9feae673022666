import itertools
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leakdet.config import DataConfig
from leakdet.core.errors import InputError, SettingsError
from leakdet.loading import loaders
from leakdet.loading.loaders import (
    EvalLoader,
    InMemorySamples,
    TrainLoader,
    recording_shares,
    timed,
)
from leakdet.loading.order import epoch_draws
from leakdet.loading.samples import Batch, SplitSamples
from leakdet.storage.opening import open_split


def test_each_batch_has_its_number_and_its_wait() -> None:
    def batches() -> Iterator[str]:
        time.sleep(0.03)
        yield "a"
        yield "b"

    (first, slow), (second, _) = list(timed(batches, 7))
    assert (first, second) == ("a", "b")
    assert slow.seconds >= 0.03
    assert slow.batch == 7
    assert slow.opening
    assert not slow.starting
    assert slow.cpu_s < slow.seconds  # it slept


def test_what_is_done_with_a_batch_is_no_wait() -> None:
    waits = []
    for _, wait in timed(lambda: iter(range(3)), 0):
        waits.append(wait)
        time.sleep(0.05)
    assert [wait.opening for wait in waits] == [True, False, False]
    assert waits[1].asked_s - waits[0].asked_s >= 0.05
    assert sum(wait.seconds for wait in waits) < 0.05


def test_the_work_of_the_process_is_counted(monkeypatch) -> None:
    readings = iter([(10.0, 1.0, 5, 100), (10.5, 1.4, 7, 2100), (11.0, 2.0, 7, 2100)])
    monkeypatch.setattr(loaders, "_reading", lambda: next(readings))
    ((_, wait),) = list(timed(lambda: iter([0]), 3))
    assert wait.cpu_s - 0.4 < 1e-9
    assert (wait.page_faults, wait.read_bytes) == (2, 2000 * 512)


def test_readings_grow() -> None:
    before = loaders._reading()
    sum(range(10_000))
    assert all(now >= then for now, then in zip(loaders._reading(), before, strict=True))


def test_the_first_batch_of_each_reader_is_told_apart() -> None:
    waits = [wait for _, wait in timed(lambda: iter(range(3)), 4, readers=2, starting=True)]
    assert [wait.batch for wait in waits] == [4, 5, 6]
    assert [wait.opening for wait in waits] == [wait.starting for wait in waits]
    assert [wait.starting for wait in waits] == [True, True, False]


TRAIN_WINDOWS = [3, 1, 7, 2, 5, 1, 4]
TRAIN_LABELS = [0, 1, 1, 0, 1, 1, 1]

MakeLoader = Callable[..., TrainLoader]
Numbers = Callable[[list[Batch]], list[int]]
WorkerBatches = Callable[..., list[Batch]]


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    windows=st.lists(st.integers(1, 9), min_size=2, max_size=12),
    unit=st.sampled_from(["window", "segment"]),
    residency=st.sampled_from(["ram", "stream"]),
    world=st.sampled_from([1, 2]),
    workers=st.sampled_from([0, 1, 3]),
    batch_size=st.integers(1, 20),
    epoch=st.integers(0, 3),
    shards=st.sampled_from([1, 2]),
    buffer_mb=st.sampled_from([1e-4, 1.0]),
)
def test_natural_epoch_visits_every_sample_exactly_once(
    stores: SimpleNamespace,
    train_loader: MakeLoader,
    numbers: Numbers,
    worker_batches: WorkerBatches,
    windows: list[int],
    unit: str,
    residency: str,
    world: int,
    workers: int,
    batch_size: int,
    epoch: int,
    shards: int,
    buffer_mb: float,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        labels = [row % 2 for row in range(len(windows))]
        samples = stores.samples_of(Path(folder), windows, labels, unit, shards)
        data = DataConfig(batch_size=batch_size)
        data.buffer_mb = buffer_mb  # below what a user may set: blocks of a few windows
        seen, lengths = [], set()
        for rank in range(world):
            loader = train_loader(samples, residency, data, rank, world)
            batches = worker_batches(loader, workers, epoch)
            assert len(batches) == len(loader)
            lengths.add(len(batches))
            seen += batches
        assert len(lengths) == 1  # a rank with fewer batches would hang the others
        assert all(len(batch.mel) for batch in seen)
        step = stores.signal.segments // samples.per_window
        assert sorted(numbers(seen)) == [step * number for number in range(len(samples))]
        for batch in seen:
            number = np.array(numbers([batch])) // step
            own = np.searchsorted(samples.offsets, number, side="right") - 1
            assert batch.recording.tolist() == own.tolist()
            assert batch.class_id.tolist() == samples.class_of_recording[own].tolist()
            assert batch.weight.tolist() == samples.weight_of_recording[own].tolist()


@pytest.mark.parametrize("residency", ["ram", "stream"])
@pytest.mark.parametrize("sampling", ["natural", "balanced", "oversampled", "curriculum"])
@pytest.mark.parametrize(("world", "workers"), [(1, 0), (2, 0), (1, 3), (2, 1), (2, 3)])
def test_every_sampling_draws_the_mix_that_it_reports_and_spreads_it_evenly(
    stores: SimpleNamespace,
    train_loader: MakeLoader,
    numbers: Numbers,
    worker_batches: WorkerBatches,
    tmp_path: Path,
    residency: str,
    sampling: str,
    world: int,
    workers: int,
) -> None:
    samples = stores.samples_of(tmp_path, TRAIN_WINDOWS, TRAIN_LABELS, "window")
    data = DataConfig(batch_size=6, sampling=sampling, curriculum_epochs=3, buffer_mb=1.0)
    for epoch in (0, 1, 5):
        batches = []
        for rank in range(world):
            loader = train_loader(samples, residency, data, rank, world)
            batches += worker_batches(loader, workers, epoch)
        drawn = np.bincount(np.concatenate([batch.class_id for batch in batches]), minlength=2)
        assert drawn.tolist() == epoch_draws(samples.class_counts(2), data, epoch).tolist()
        times = Counter(numbers(batches))
        for members in (
            np.flatnonzero(np.repeat(TRAIN_LABELS, TRAIN_WINDOWS) == kind) * 2 for kind in (0, 1)
        ):
            counted = [times[number] for number in members.tolist()]
            assert max(counted) - min(counted) <= 1


@pytest.mark.parametrize("residency", ["ram", "stream"])
def test_balanced_batches_are_balanced_on_each_rank(
    stores: SimpleNamespace, train_loader: MakeLoader, tmp_path: Path, residency: str
) -> None:
    """One leak in ten recordings: a rank that drew the natural mix would see a tenth."""
    labels = [int(row % 10 == 0) for row in range(400)]
    samples = stores.samples_of(tmp_path, [2] * 400, labels, "segment")
    data = DataConfig(batch_size=64, sampling="balanced", buffer_mb=1.0)
    for rank in (0, 1):
        batches = train_loader(samples, residency, data, rank, 2).batches(0)
        drawn = torch.cat([batch.class_id for batch in batches])
        assert drawn.float().mean().item() == pytest.approx(0.5, abs=0.1)


def test_all_residencies_have_the_same_batch_sizes(
    stores: SimpleNamespace, train_loader: MakeLoader, tmp_path: Path
) -> None:
    samples = stores.samples_of(tmp_path, TRAIN_WINDOWS, TRAIN_LABELS, "segment")
    data = DataConfig(batch_size=7, buffer_mb=1.0)
    sizes: dict[str, Any] = {"ram": [], "stream": []}
    for residency, of_ranks in sizes.items():
        for rank in (0, 1):
            loader = train_loader(samples, residency, data, rank, 2)
            of_ranks.append([len(batch.class_id) for batch in loader.batches(0)])
        assert np.sum(of_ranks, axis=0).tolist() == loader.batch_sizes().tolist()
    assert sizes["ram"] == sizes["stream"]


@pytest.mark.parametrize("residency", ["ram", "stream"])
def test_order_is_a_function_of_seed_and_epoch(
    stores: SimpleNamespace,
    train_loader: MakeLoader,
    numbers: Numbers,
    tmp_path: Path,
    residency: str,
) -> None:
    samples = stores.samples_of(tmp_path, TRAIN_WINDOWS, TRAIN_LABELS, "window")

    def order(seed: int, epoch: int) -> list[int]:
        loader = train_loader(samples, residency, DataConfig(batch_size=4), seed=seed)
        return numbers(list(loader.batches(epoch)))

    assert order(0, 0) == order(0, 0)
    assert order(0, 0) != order(0, 1)
    assert order(0, 0) != order(1, 0)


@pytest.mark.parametrize("residency", ["ram", "stream"])
@pytest.mark.parametrize("stop", [1, 3])
def test_resuming_continues_with_the_samples_not_yet_seen(
    stores: SimpleNamespace,
    train_loader: MakeLoader,
    numbers: Numbers,
    tmp_path: Path,
    residency: str,
    stop: int,
) -> None:
    samples = stores.samples_of(tmp_path, TRAIN_WINDOWS, TRAIN_LABELS, "window")
    data = DataConfig(batch_size=4, buffer_mb=1.0)
    whole = train_loader(samples, residency, data)
    whole.set_epoch(2)
    expected = numbers(list(whole))
    first = train_loader(samples, residency, data)
    first.set_epoch(2)
    seen = list(itertools.islice(first, stop))
    again = train_loader(samples, residency, data)
    again.load_state_dict(first.state_dict())
    again.set_epoch(2)
    assert numbers(seen + list(again)) == expected
    # only the first epoch after resuming is a part
    assert len(numbers(list(again))) == len(samples)


def test_an_epoch_is_not_resumed_in_another_order(
    stores: SimpleNamespace, train_loader: MakeLoader, tmp_path: Path
) -> None:
    """data.residency=auto may choose otherwise, and a stream is divided among its processes."""
    samples = stores.samples_of(tmp_path, TRAIN_WINDOWS, TRAIN_LABELS, "window")
    data = DataConfig(batch_size=4, buffer_mb=1.0)
    ram, ram_of_two, stream, stream_of_two = (
        train_loader(samples, residency, data, world=world)
        for residency, world in (("ram", 1), ("ram", 2), ("stream", 1), ("stream", 2))
    )
    next(iter(ram))
    next(iter(stream))
    ram_of_two.load_state_dict(ram.state_dict())
    for other in (stream, stream_of_two):
        with pytest.raises(SettingsError, match=r"samples were in memory .*now they are streamed"):
            other.load_state_dict(ram.state_dict())
    with pytest.raises(SettingsError, match=r"by 1 process;.* now they are .* by 2"):
        stream_of_two.load_state_dict(stream.state_dict())
    list(ram)
    stream.load_state_dict(ram.state_dict())  # a finished epoch has no rest


@pytest.mark.parametrize("residency", ["ram", "stream"])
def test_an_epoch_that_another_version_shuffled_is_not_resumed(
    stores: SimpleNamespace,
    train_loader: MakeLoader,
    tmp_path: Path,
    residency: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    samples = stores.samples_of(tmp_path, TRAIN_WINDOWS, TRAIN_LABELS, "window")
    data = DataConfig(batch_size=4, buffer_mb=1.0)
    loader, other = (train_loader(samples, residency, data) for _ in range(2))
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    other.load_state_dict(state)
    with monkeypatch.context() as patch:
        patch.setattr("leakdet.loading.loaders.ORDER_VERSION", 99)
        with pytest.raises(SettingsError, match=r"another version.*init_from"):
            other.load_state_dict(state)
        list(batches)
        other.load_state_dict(loader.state_dict())


def test_a_compressed_split_gives_the_same_samples(
    stores: SimpleNamespace, train_loader: MakeLoader, tmp_path: Path
) -> None:
    plain = stores.samples_of(tmp_path, TRAIN_WINDOWS, TRAIN_LABELS, "segment")
    (tmp_path / "packed").mkdir()
    packed = {"compression": "gzip", "chunks": (4, stores.signal.segments, stores.signal.n_mels, 1)}
    stores.write_split(tmp_path / "packed" / "train.h5", TRAIN_WINDOWS, TRAIN_LABELS, mel=packed)
    split = open_split(tmp_path / "packed", "train")
    other = SplitSamples(split, np.array(TRAIN_LABELS), "segment")
    for residency in ("ram", "stream"):
        expected = train_loader(plain, residency, DataConfig(batch_size=5)).batches(1)
        found = train_loader(other, residency, DataConfig(batch_size=5)).batches(1)
        for one, two in zip(expected, found, strict=True):
            assert torch.equal(one.mel, two.mel)


WINDOWS, LABELS = [3, 1, 7, 2], [0, 1, 1, 0]


@pytest.mark.parametrize("unit", ["window", "segment"])
@pytest.mark.parametrize("shards", [1, 2])
def test_any_samples_are_those_of_the_files(
    stores: SimpleNamespace, tmp_path: Path, unit: str, shards: int
) -> None:
    samples = stores.samples_of(tmp_path, WINDOWS, LABELS, unit, shards)
    memory = InMemorySamples(samples)
    whole = samples.batch(0, len(samples))
    for tensor, expected in zip(memory.batch(0, len(samples)), whole, strict=True):
        assert torch.equal(tensor, expected)
    index = torch.tensor([5, 0, 5, len(samples) - 1])
    for tensor, expected in zip(memory.take(index), whole, strict=True):
        assert torch.equal(tensor, expected[index])
    # a strided index, as a rank takes it
    for tensor, expected in zip(memory.take(torch.arange(9)[1::3]), whole, strict=True):
        assert torch.equal(tensor, expected[1:9:3])


def test_moving_moves_everything(stores: SimpleNamespace, tmp_path: Path) -> None:
    memory = InMemorySamples(stores.samples_of(tmp_path, WINDOWS, LABELS, "segment"))
    moved = memory.to(torch.device("meta"))
    assert moved is memory
    assert moved.device.type == "meta"
    assert {column.device.type for column in moved.batch(1, 3)} == {"meta"}


def test_one_uncompressed_file_is_mapped_and_not_copied(
    stores: SimpleNamespace, tmp_path: Path
) -> None:
    samples = stores.samples_of(tmp_path, WINDOWS, LABELS, "window")
    mapped = samples.split.mel.mapped
    assert InMemorySamples(samples).mel.data_ptr() == mapped.ctypes.data


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
        patch.setattr("leakdet.loading.loaders.WINDOWS", 7)
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
