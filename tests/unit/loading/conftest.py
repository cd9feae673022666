"""Training loaders of the small stores, and the batches of workers without their processes."""

import itertools
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from leakdet.config import DataConfig
from leakdet.loading import order, stream
from leakdet.loading.loaders import InMemoryLoader, InMemorySamples, TrainLoader
from leakdet.loading.samples import Batch, SplitSamples
from leakdet.loading.stream import StreamLoader

MakeLoader = Callable[..., TrainLoader]


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many chunks as a large split has."""
    monkeypatch.setattr(order, "CHUNK_BYTES", 32)


@pytest.fixture(scope="session")
def train_loader() -> MakeLoader:
    """`train_loader(samples, "stream", data, rank, world, seed=0)`"""

    def make(
        samples: SplitSamples,
        residency: str,
        data: DataConfig,
        rank: int = 0,
        world: int = 1,
        seed: int = 0,
    ) -> TrainLoader:
        if residency == "stream":
            return StreamLoader(samples, data, seed, rank, world)
        return InMemoryLoader(InMemorySamples(samples), data, seed, rank, world)

    return make


@pytest.fixture(scope="session")
def numbers() -> Callable[[list[Batch]], list[int]]:
    """`numbers(batches)`: which samples these are; the small stores write its number into each."""
    return lambda batches: [int(value) for batch in batches for value in batch.mel.flatten(1)[:, 0]]


@pytest.fixture(scope="session")
def worker_batches() -> Callable[..., list[Batch]]:
    """`worker_batches(loader, workers, epoch, start=0)`: in turn, as a DataLoader takes them."""

    def collect(loader: TrainLoader, workers: int, epoch: int, start: int = 0) -> list[Batch]:
        if not isinstance(loader, StreamLoader) or not workers:
            return list(loader.batches(epoch, start))
        per_worker = []
        for number in range(workers):
            info = SimpleNamespace(id=number, num_workers=workers)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(stream, "get_worker_info", lambda info=info: info)
                loader.reader.start_at(epoch, start)
                per_worker.append(list(loader.reader))
        turns = itertools.zip_longest(*per_worker)
        return [batch for turn in turns for batch in turn if batch is not None]

    return collect
