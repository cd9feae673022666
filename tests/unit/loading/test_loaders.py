"""Every sample exactly once, or as often as the sampling says, whatever the residency, the processes and the workers."""

import gc
import itertools
import multiprocessing
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leakdet.config import DataConfig
from leakdet.errors import InputError, SettingsError
from leakdet.loading import read_ahead as blocks
from leakdet.loading import streaming
from leakdet.loading.in_memory import ResidentEpochs, ResidentSamples, SharedWork
from leakdet.loading.loaders import Epochs, EvalLoader, TrainLoader, recording_shares
from leakdet.loading.read_ahead import chunk_bounds
from leakdet.loading.samples import Batch, SplitSamples
from leakdet.loading.sampling import epoch_draws
from leakdet.loading.streaming import StreamEpochs

WINDOWS = [3, 1, 7, 2, 5, 1, 4]
LABELS = [0, 1, 1, 0, 1, 1, 1]
CPU = torch.device("cpu")


def epochs_of(
    samples: SplitSamples,
    residency: str,
    data: DataConfig,
    rank: int = 0,
    world: int = 1,
    seed: int = 0,
) -> Epochs:
    if residency == "stream":
        return StreamEpochs(samples, data, seed, rank, world)
    return ResidentEpochs(ResidentSamples(samples).to(CPU), data, seed, rank, world)


def numbers(batches: list[Batch]) -> list[int]:
    """Which samples these are: the stores of these tests write the number of each into its mel."""
    return [int(value) for batch in batches for value in batch.mel.flatten(1)[:, 0]]


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of some recordings, gathers of some batches: as many borders as in a large split."""
    monkeypatch.setattr(blocks, "CHUNK_BYTES", 32)
    monkeypatch.setattr("leakdet.loading.in_memory.GATHER_BYTES", 200)
    monkeypatch.setattr("leakdet.loading.streaming.GATHER_BYTES", 200)


def worker_loader_steps(
    stream: StreamEpochs, workers: int, epoch: int, start: int = 0
) -> list[Batch]:
    """What the worker processes would yield, without starting any: in turn, as DataLoader takes them."""
    per_worker = []
    for number in range(workers):
        info = SimpleNamespace(id=number, num_workers=workers)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(streaming, "get_worker_info", lambda info=info: info)
            stream.reader.turn_to(epoch, start)
            per_worker.append(list(stream.reader))
    turns = itertools.zip_longest(*per_worker)
    return [batch for turn in turns for batch in turn if batch is not None]


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    windows=st.lists(st.integers(1, 9), min_size=2, max_size=12),
    unit=st.sampled_from(["window", "segment"]),
    residency=st.sampled_from(["ram", "device", "stream"]),
    world=st.sampled_from([1, 2]),
    workers=st.sampled_from([0, 1, 3]),
    batch_size=st.integers(1, 20),
    epoch=st.integers(0, 3),
    shards=st.sampled_from([1, 2]),
    buffer_mb=st.sampled_from([1e-4, 1.0]),
)
def test_natural_epoch_visits_every_sample_exactly_once(
    stores: SimpleNamespace,
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
            epochs = epochs_of(samples, residency, data, rank, world)
            if isinstance(epochs, StreamEpochs) and workers:
                batches = worker_loader_steps(epochs, workers, epoch)
            else:
                batches = list(epochs.batches(epoch))
            assert len(batches) == len(epochs)
            lengths.add(len(batches))
            seen += batches
        assert len(lengths) == 1  # a rank with fewer batches would hang the others
        assert all(len(batch.mel) for batch in seen)
        step = stores.signal.segments // samples.per_window
        assert sorted(numbers(seen)) == [step * number for number in range(len(samples))]
        for batch in seen:
            own = (
                np.searchsorted(samples.offsets, np.array(numbers([batch])) // step, side="right")
                - 1
            )
            assert batch.recording.tolist() == own.tolist()
            assert batch.class_id.tolist() == samples.class_of_recording[own].tolist()
            assert batch.weight.tolist() == samples.weight_of_recording[own].tolist()


@pytest.mark.parametrize("residency", ["ram", "stream"])
@pytest.mark.parametrize("sampling", ["natural", "balanced", "oversampled", "curriculum"])
@pytest.mark.parametrize(("world", "workers"), [(1, 0), (2, 0), (1, 3), (2, 1), (2, 3)])
def test_every_sampling_draws_the_mix_that_it_reports_and_spreads_it_evenly(
    stores: SimpleNamespace, tmp_path: Path, residency: str, sampling: str, world: int, workers: int
) -> None:
    samples = stores.samples_of(tmp_path, WINDOWS, LABELS, "window")
    data = DataConfig(batch_size=6, sampling=sampling, curriculum_epochs=3, buffer_mb=1.0)
    for epoch in (0, 1, 5):
        batches = []
        for rank in range(world):
            epochs = epochs_of(samples, residency, data, rank, world)
            if isinstance(epochs, StreamEpochs) and workers:
                batches += worker_loader_steps(epochs, workers, epoch)
            else:
                batches += list(epochs.batches(epoch))
        drawn = np.bincount(np.concatenate([batch.class_id for batch in batches]), minlength=2)
        assert drawn.tolist() == epoch_draws(samples.class_counts(2), sampling, epoch, 3).tolist()
        times = Counter(numbers(batches))
        for members in (np.flatnonzero(np.repeat(LABELS, WINDOWS) == kind) * 2 for kind in (0, 1)):
            counted = [times[number] for number in members.tolist()]
            assert max(counted) - min(counted) <= 1


@pytest.mark.parametrize("residency", ["ram", "device", "stream"])
def test_balanced_batches_are_balanced_on_each_rank(
    stores: SimpleNamespace, tmp_path: Path, residency: str
) -> None:
    """One leak in ten recordings: a rank that drew the natural mix would see a tenth."""
    labels = [int(row % 10 == 0) for row in range(400)]
    samples = stores.samples_of(tmp_path, [2] * 400, labels, "segment")
    data = DataConfig(batch_size=64, sampling="balanced", buffer_mb=1.0)
    for rank in (0, 1):
        drawn = torch.cat(
            [b.class_id for b in epochs_of(samples, residency, data, rank, 2).batches(0)]
        )
        assert drawn.float().mean().item() == pytest.approx(0.5, abs=0.1)


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("busy", [False, True])
def test_two_threads_share_tasks_and_neither_waits_for_a_core(threads: int, busy: bool) -> None:
    done, free = [], threading.Event()
    with torch_threads(threads), ThreadPoolExecutor(1) as second:
        if busy:
            second.submit(free.wait)
        tasks = [lambda number=number: done.append(number) or -number for number in range(100)]
        made = SharedWork(tasks, second).results()
        assert sorted(done) == list(range(100))  # each once, and all of them by now
        assert made == [-number for number in range(100)]
        free.set()


def test_the_second_thread_begins_before_anybody_asks() -> None:
    begun = threading.Event()
    with torch_threads(2), ThreadPoolExecutor(1) as second:
        work = SharedWork([begun.set], second)
        assert begun.wait(10)
        assert work.results() == [None]


def test_the_second_threads_error_is_raised() -> None:
    with torch_threads(2), ThreadPoolExecutor(1) as second, pytest.raises(ZeroDivisionError):
        SharedWork([lambda: time.sleep(0.01), *[lambda: 1 // 0] * 2], second).results()


@pytest.mark.parametrize("unit", ["window", "segment"])
def test_batches_are_the_same_by_one_thread_and_by_two(
    stores: SimpleNamespace, tmp_path: Path, unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leakdet.loading.in_memory.PIECE_BYTES", 20)
    samples = stores.samples_of(tmp_path, WINDOWS, LABELS, unit)
    found = []
    for threads in (1, 2):
        with torch_threads(threads):
            found.append(list(epochs_of(samples, "ram", DataConfig(batch_size=5)).batches(0)))
    for one, two in zip(*found, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def test_all_residencies_have_the_same_batch_sizes(stores: SimpleNamespace, tmp_path: Path) -> None:
    samples = stores.samples_of(tmp_path, WINDOWS, LABELS, "segment")
    data = DataConfig(batch_size=7, buffer_mb=1.0)
    for rank in (0, 1):
        sizes = [
            [
                len(batch.class_id)
                for batch in epochs_of(samples, residency, data, rank, 2).batches(0)
            ]
            for residency in ("ram", "stream")
        ]
        assert sizes[0] == sizes[1]


@pytest.mark.parametrize("residency", ["ram", "stream"])
def test_order_is_a_function_of_seed_and_epoch(
    stores: SimpleNamespace, tmp_path: Path, residency: str
) -> None:
    samples = stores.samples_of(tmp_path, WINDOWS, LABELS, "window")

    def order(seed: int, epoch: int) -> list[int]:
        return numbers(
            list(epochs_of(samples, residency, DataConfig(batch_size=4), seed=seed).batches(epoch))
        )

    assert order(0, 0) == order(0, 0)
    assert order(0, 0) != order(0, 1)
    assert order(0, 0) != order(1, 0)


def test_every_order_of_a_streamed_block_is_equally_likely(
    stores: SimpleNamespace, tmp_path: Path
) -> None:
    """Of the largest block, whose permutation an epoch draws, and of a smaller one, which takes its own from that."""
    samples = stores.samples_of(tmp_path, [4, 3], [0, 1], "window")
    data = DataConfig(batch_size=7)
    # two blocks, one for each recording
    data.buffer_mb = 2 * 4 * samples.split.mel.window_bytes / 1e6
    stream = StreamEpochs(samples, data, seed=0)
    found: list[Counter[tuple[int, ...]]] = [Counter(), Counter()]
    for epoch in range(480):
        (batch,) = stream.batches(epoch)
        for recording, orders in enumerate(found):
            orders[
                tuple(numbers([batch])[at] for at in np.flatnonzero(batch.recording == recording))
            ] += 1
    # chances of less than 5e-5
    for orders, count, limit in zip(found, (24, 6), (60, 30), strict=True):
        assert len(orders) == count
        assert sum((times - 480 / count) ** 2 for times in orders.values()) / (480 / count) < limit


@pytest.mark.parametrize("residency", ["ram", "stream"])
@pytest.mark.parametrize("stop", [1, 3])
def test_resuming_goes_on_with_the_samples_not_yet_seen(
    stores: SimpleNamespace, tmp_path: Path, residency: str, stop: int
) -> None:
    samples = stores.samples_of(tmp_path, WINDOWS, LABELS, "window")
    data = DataConfig(batch_size=4, buffer_mb=1.0)
    whole = TrainLoader(epochs_of(samples, residency, data))
    whole.set_epoch(2)
    expected = numbers(list(whole))
    first = TrainLoader(epochs_of(samples, residency, data))
    first.set_epoch(2)
    seen = list(itertools.islice(first, stop))
    again = TrainLoader(epochs_of(samples, residency, data))
    again.load_state_dict(first.state_dict())
    again.set_epoch(2)
    assert numbers(seen + list(again)) == expected
    # only the first epoch after resuming is a part
    assert len(numbers(list(again))) == len(samples)


def test_the_rest_of_an_epoch_is_not_looked_for_in_another_order(
    stores: SimpleNamespace, tmp_path: Path
) -> None:
    """data.residency=auto may choose otherwise on another day, and a stream is divided among other processes."""
    samples = stores.samples_of(tmp_path, WINDOWS, LABELS, "window")
    data = DataConfig(batch_size=4, buffer_mb=1.0)
    loaders = [
        TrainLoader(epochs_of(samples, residency, data, world=world))
        for residency, world in (("ram", 1), ("device", 2), ("stream", 1), ("stream", 2))
    ]
    ram, device, stream, shared = loaders
    next(iter(ram))
    next(iter(stream))
    device.load_state_dict(ram.state_dict())
    for other in (stream, shared):
        with pytest.raises(SettingsError, match=r"samples in memory .*now they are streamed"):
            other.load_state_dict(ram.state_dict())
    with pytest.raises(SettingsError, match=r"by 1 processes, now they are .* by 2"):
        shared.load_state_dict(stream.state_dict())
    list(ram)
    stream.load_state_dict(ram.state_dict())  # an epoch that is over has no rest


@pytest.mark.parametrize("start", ["fork", "forkserver", "spawn"])
def test_persistent_workers_change_the_order_each_epoch_and_cover_everything(
    stores: SimpleNamespace, tmp_path: Path, start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # spawned workers have the real chunks
    samples = stores.samples_of(tmp_path, WINDOWS, LABELS, "window")
    data = DataConfig(batch_size=4, workers=2, worker_start=start)
    loader = TrainLoader(StreamEpochs(samples, data, seed=0))
    orders = []
    for epoch in (0, 1):
        loader.set_epoch(epoch)
        orders.append(numbers(list(loader)))
    assert sorted(orders[0]) == sorted(orders[1]) == [2 * number for number in range(len(samples))]
    assert orders[0] != orders[1]


def test_workers_are_told_to_end(
    stores: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not waited for, as those of a loader are that the garbage collector finds in a circle, and terminated."""
    monkeypatch.setattr(
        "torch.utils.data._utils.worker.MP_STATUS_CHECK_INTERVAL", 1000
    )  # none looks for itself
    samples = stores.samples_of(tmp_path, WINDOWS, LABELS, "window")
    stream = StreamEpochs(samples, DataConfig(batch_size=4, workers=2, worker_start="fork"), seed=0)
    list(stream.batches(0))
    terminated: list[object] = []
    monkeypatch.setattr(multiprocessing.process.BaseProcess, "terminate", terminated.append)
    workers = list(stream._loader._iterator._workers)
    circle: list[object] = [stream]
    circle.append(circle)
    del stream, circle
    gc.collect()
    assert terminated == []
    assert [worker.exitcode for worker in workers] == [0, 0]


@pytest.mark.parametrize("workers", [1, 3])
def test_workers_resume_with_what_is_left(
    stores: SimpleNamespace, tmp_path: Path, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = stores.samples_of(tmp_path, WINDOWS, LABELS, "window")
    stream = StreamEpochs(samples, DataConfig(batch_size=4), seed=0)
    whole = worker_loader_steps(stream, workers, 0)
    rest = worker_loader_steps(stream, workers, 0, start=2)
    assert Counter(numbers(whole[:2] + rest)) == Counter(numbers(whole))


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    windows=st.lists(st.integers(1, 40), min_size=2, max_size=9),
    world=st.integers(1, 4),
    resident=st.booleans(),
    unit=st.sampled_from(["window", "segment"]),
)
def test_evaluation_counts_every_recording_once_on_one_rank(
    stores: SimpleNamespace, windows: list[int], world: int, resident: bool, unit: str
) -> None:
    world = min(world, len(windows))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("leakdet.loading.loaders.EVAL_WINDOWS", 7)
        samples = stores.samples_of(
            Path(folder), windows, [row % 2 for row in range(len(windows))], unit
        )
        held = ResidentSamples(samples) if resident else None
        loaders = [EvalLoader(samples, held, rank, world) for rank in range(world)]
        heard = [list(loader) for loader in loaders]
        assert len({len(loader) for loader in loaders}) == 1
        assert [len(batches) for batches in heard] == [len(loader) for loader in loaders]
        everything = [batch for batches in heard for batch in batches]
        step = stores.signal.segments // samples.per_window
        assert numbers(everything) == [step * number for number in range(len(samples))]
        owners = [
            set(torch.cat([batch.recording for batch in batches]).tolist()) for batches in heard
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


def test_chunks_hold_whole_recordings_in_order() -> None:
    assert chunk_bounds(np.array([10, 10, 10, 100, 10]), 30).tolist() == [0, 3, 4, 5]
    assert chunk_bounds(np.array([100]), 30).tolist() == [0, 1]


def test_a_stream_is_small_to_send_to_a_worker(stores: SimpleNamespace, tmp_path: Path) -> None:
    samples = stores.samples_of(tmp_path, WINDOWS, LABELS, "window")
    _ = samples.split.mel.parts[0].mapped, samples.weight_of_recording
    assert len(bytes(ForkingPickler.dumps(samples))) < 20_000


def test_a_compressed_split_gives_the_same_samples(stores: SimpleNamespace, tmp_path: Path) -> None:
    plain = stores.samples_of(tmp_path, WINDOWS, LABELS, "segment")
    (tmp_path / "packed").mkdir()
    packed = {"compression": "gzip", "chunks": (4, stores.signal.segments, stores.signal.n_mels, 1)}
    stores.write_split(tmp_path / "packed" / "train.h5", WINDOWS, LABELS, mel=packed)
    from leakdet.storage.opening import open_any_split

    other = SplitSamples(open_any_split(tmp_path / "packed", "train"), np.array(LABELS), "segment")
    for residency in ("ram", "stream"):
        expected = epochs_of(plain, residency, DataConfig(batch_size=5)).batches(1)
        found = epochs_of(other, residency, DataConfig(batch_size=5)).batches(1)
        for one, two in zip(expected, found, strict=True):
            assert torch.equal(one.mel, two.mel)
