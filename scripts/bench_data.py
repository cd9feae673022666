"""How fast windows reach the network, against a Dataset that reads item by item."""

import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import psutil
import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks import Row, Section, measure, parser
from leakdet.config import DataConfig, NetworkConfig
from leakdet.detection.networks import make_network
from leakdet.loading.loaders import InMemoryLoader, InMemorySamples, TrainLoader
from leakdet.loading.samples import SplitSamples
from leakdet.loading.stream import StreamLoader
from leakdet.storage.opening import open_split
from leakdet.training.memory import keep_freed_memory
from stores import FIELD, write_ailh_store, write_store

SLAB_BYTES = 32 << 20  # of a sequential read: half of data.buffer_mb, as a stream reads
SECONDS = 3.0  # of one measurement, at most
ROUNDS = 7
NOTE = """Batch after batch into the training process, file in the page cache, no network; medians of
seven epochs. All quantities of a row are measured in turn, in a process of their own that keeps
freed memory, as a training on a CPU does. `times`: samples per second against a map-style `Dataset`
that reads an item with h5py, in a `DataLoader` with 2 workers, measured before and after.
`of index_select`: share of a bare `torch.index_select` of batches of the same size in random order
from the same tensor, on two threads. `of sequential`: share of an h5py read of the whole file in
slabs of 32 MB, unshuffled. `wait`: share of an epoch of the default network spent waiting for data.
Times of a batch in ms. `AILH`: the same windows in a file of AILH. `memory`: resident memory of two
worker processes after the fifth epoch, against that after the first."""


class PerItem(Dataset[tuple[torch.Tensor, int]]):
    """The baseline: one sample at a time, straight from HDF5."""

    def __init__(self, path: Path, samples: SplitSamples) -> None:
        self.path, self.samples = path, len(samples)
        self.segments, self.per_window = samples.unit == "segment", samples.per_window
        self.mel: h5py.Dataset | None = None

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if self.mel is None:
            self.mel = h5py.File(self.path, "r")["mel"]
        window, segment = divmod(index, self.per_window)
        row = self.mel[window, segment : segment + 1] if self.segments else self.mel[window]
        return torch.from_numpy(row), index % 2


def samples_of(folder: Path, unit: str) -> SplitSamples:
    split = open_split(folder, "train")
    return SplitSamples(split, np.array(split.label_id), unit)


def loader_of(samples: SplitSamples, data: DataConfig, residency: str) -> TrainLoader:
    if residency == "ram":
        return InMemoryLoader(InMemorySamples(samples), data, 0)
    return StreamLoader(samples, data, 0)


def timed(batches: Iterable[Any], size: Callable[[Any], int]) -> tuple[float, list[float]]:
    """Samples per second, and the seconds of each batch but the first."""
    times, samples = [], 0
    began = before = time.perf_counter()
    for batch in batches:
        now = time.perf_counter()
        times.append(now - before)
        samples += size(batch)
        before = now
        if now - began > SECONDS:
            break
    return samples / (before - began), times[1:] or times


def per_item_rate(folder: Path, samples: SplitSamples, batch_size: int) -> float:
    items = PerItem(folder / "train.h5", samples)
    loader = DataLoader(items, batch_size, shuffle=True, num_workers=2)
    batches = iter(loader)
    if len(loader) > 1:
        next(batches)  # its workers start
    return timed(batches, lambda batch: len(batch[1]))[0]


def index_select_rate(loader: InMemoryLoader) -> float:
    mel = loader.memory.mel
    order = torch.randperm(len(mel))
    pieces = (order[low:high] for low, high in pairwise(loader.bounds.tolist()))
    torch.set_num_threads(min(2, torch.get_num_threads()))
    return timed((mel.index_select(0, piece) for piece in pieces), len)[0]


def sequential_rate(samples: SplitSamples) -> float:
    part = samples.split.mel.parts[0]
    with h5py.File(part.path, "r") as file:
        mel = file[part.dataset]
        rows = max(1, SLAB_BYTES * len(mel) // mel.nbytes)
        began = time.perf_counter()
        for start in range(0, len(mel), rows):
            mel[start : start + rows]
        return len(samples) / (time.perf_counter() - began)


def in_own_process(measure: Callable[..., Any], *arguments: Any) -> Any:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(measure, *arguments).result()


def compared(folder: Path, store: Path, unit: str, batch_size: int) -> Iterator[Row]:
    """The loaders on `store` against items of `folder`, which are measured before and after."""
    samples = samples_of(folder, unit)
    before = per_item_rate(folder, samples, batch_size)
    rows = {
        residency: in_own_process(measured, store, unit, batch_size, residency)
        for residency in ("ram", "stream")
    }
    per_item = (before + per_item_rate(folder, samples, batch_size)) / 2
    if store == folder:
        rows = {"per item, 2 workers": {"samples/s": per_item}, **rows}
    for name, row in rows.items():
        head = {"samples": unit, "batch": batch_size, "residency": name}
        rate = row["samples/s"]
        yield {**head, "samples/s": rate, "times": rate / per_item, **row}


def measured(store: Path, unit: str, batch_size: int, residency: str) -> Row:
    keep_freed_memory()
    samples = samples_of(store, unit)
    loader = loader_of(samples, DataConfig(batch_size=batch_size, unit=unit), residency)
    for _ in loader.batches(0):  # checked in a stream, which later epochs are not
        pass
    rates, limits, times = [], [], []
    for epoch in range(1, ROUNDS + 1):
        rate, seconds = timed(loader.batches(epoch), lambda batch: len(batch.class_id))
        rates.append(rate)
        times += seconds
        if isinstance(loader, InMemoryLoader):
            limits.append(index_select_rate(loader))
        else:
            limits.append(sequential_rate(samples))
    limit = "of index_select" if residency == "ram" else "of sequential"
    share = float(np.median(np.divide(rates, limits)))
    return {"samples/s": float(np.median(rates)), limit: share, **batch_times(times)}


def batch_times(seconds: list[float]) -> dict[str, float]:
    median, p99, worst = np.percentile(seconds, [50, 99, 100]).tolist()
    return {"median ms": 1e3 * median, "p99 ms": 1e3 * p99, "worst ms": 1e3 * worst}


def waiting(folder: Path, residency: str) -> Row:
    """Share of the second epoch of the default network that passes before a batch is there."""
    loader = loader_of(samples_of(folder, "window"), DataConfig(batch_size=512), residency)
    for _ in loader.batches(0):
        pass
    keep_freed_memory()
    network = make_network(NetworkConfig(), FIELD.mel_shape, 2)
    waits, began = [], time.perf_counter()
    batches = loader.batches(1)
    for _ in range(len(loader)):
        before = time.perf_counter()
        batch = next(batches)
        waits.append(time.perf_counter() - before)
        output = network(batch.mel.float())
        loss = torch.nn.functional.cross_entropy(output.class_logits, batch.class_id)
        loss.backward()  # type: ignore[no-untyped-call]
    share = sum(waits) / (time.perf_counter() - began)
    head = {"samples": "window", "batch": 512, "residency": f"{residency}, default network"}
    return {**head, "wait": share, **batch_times(waits)}


def worker_memory(folder: Path) -> Row:
    """Resident memory of a stream's workers after the fifth epoch, against after the first."""
    loader = StreamLoader(samples_of(folder, "window"), DataConfig(batch_size=512, workers=2), 0)
    resident_bytes = []
    for epoch in range(5):
        for _ in loader.batches(epoch):
            pass
        workers = [
            child
            for child in psutil.Process().children(recursive=True)
            if "multiprocessing" in " ".join(child.cmdline())
        ]
        resident_bytes.append(sum(worker.memory_info().rss for worker in workers))
    head = {"samples": "window", "batch": 512, "residency": "stream, 2 workers"}
    return {**head, "memory": resident_bytes[-1] / resident_bytes[0]}


def rows(recordings: int, windows: int) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder, ailh = Path(name, "store"), Path(name, "ailh")
        for place, write in ((folder, write_store), (ailh, write_ailh_store)):
            place.mkdir()
            write(place, recordings, windows)
        for unit in ("segment", "window"):
            for batch_size in (512, 8192):
                yield from compared(folder, folder, unit, batch_size)
        for row in compared(folder, ailh, "segment", 8192):
            yield {**row, "residency": f"{row['residency']}, AILH"}
        for residency in ("ram", "stream"):
            yield in_own_process(waiting, folder, residency)
        yield worker_memory(folder)


def main() -> None:
    command = parser(__doc__)
    command.add_argument("--recordings", type=int, default=2000)
    command.add_argument("--windows", type=int, default=80)
    given = command.parse_args()
    title = f"The data path: {given.recordings:,} recordings of {given.windows} windows"
    of_loaders = rows(given.recordings, given.windows)
    measure(Section("data", title, of_loaders, NOTE), given.dry_run)


if __name__ == "__main__":
    main()
