"""How fast windows reach the network, against a Dataset read item by item: the section `data` of docs/benchmarks.md."""

import argparse
import gc
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import psutil
import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks import write_section
from leakdet.config import DataConfig, NetworkConfig
from leakdet.detection.networks import make_network
from leakdet.loading.in_memory import ResidentEpochs, ResidentSamples
from leakdet.loading.loaders import Epochs
from leakdet.loading.samples import SplitSamples
from leakdet.loading.streaming import StreamEpochs
from leakdet.storage.opening import open_any_split
from leakdet.training.malloc import keep_freed_memory
from stores import FIELD, write_predecessors_store, write_store

# one stays in the processor's cache, one is as large as the stream's buffer
SMALL_SLAB, LARGE_SLAB = 4 << 20, 32 << 20
ROUNDS = 15
NOTE = """Data path alone, batch after batch into the training process, file in the page cache, second epoch; each rate is
the median of fifteen rounds in which all quantities of a row are measured in turn, in a process of its own. `times` compares
the samples per second with the baseline of the same run: a map-style `Dataset` that opens the file once per worker and reads
an item with h5py, in a `DataLoader` with 2 workers, measured before and after.
`of index_select`: share of a bare `torch.index_select` of batches of the same size, in random order, from the same tensor,
by as many threads as the loader has (two); it carries no labels and draws no order. Both have the memory that a training on
a CPU keeps (training/heap.py).
`of sequential`: share of a plain sequential read of the whole file with h5py, slab after slab of 32 MB, the size of the
stream's buffer; `of cached`: the same in slabs of 4 MB, which never leave the processor's cache; `of read()`: those with a
bare `readinto`; `of kept`: `of sequential` once more, where freed memory is kept, which spares the plain read its new
pages. None of them shuffles; a streamed sample is copied twice, the second time from a random place of the buffer.
`wait`: share of a whole epoch of the default network that passes waiting for data; median, p99 and worst time of a batch in
ms. `predecessor`: the same windows as its `segments_mel`, contiguous, read as they are. `memory`: resident memory of two
worker processes after the fifth streamed epoch, against that after the first."""


class PerItem(Dataset[tuple[torch.Tensor, int]]):
    """The baseline: one sample at a time, straight from HDF5."""

    def __init__(self, path: Path, segments: bool, samples: int, per_window: int) -> None:
        self.path, self.segments, self.samples, self.per_window = (
            path,
            segments,
            samples,
            per_window,
        )
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
    split = open_any_split(folder, "train")
    return SplitSamples(split, np.array(split.label_id), unit)


@dataclass
class Pace:
    """Samples per second, and the time of each batch but the first."""

    rate: float
    times: list[float]


def paced(batches: Iterator[Any], size: Callable[[Any], int], seconds: float) -> Pace:
    """Over at most so many seconds."""
    times, samples = [], 0
    began = before = time.perf_counter()
    for batch in batches:
        now = time.perf_counter()
        times.append(now - before)
        samples += size(batch)
        before = now
        if now - began > seconds:
            break
    return Pace(samples / (before - began), times[1:] or times)


def loaded(epochs: Epochs, epoch: int) -> Pace:
    return paced(epochs.batches(epoch), lambda batch: len(batch.class_id), 3.0)


def baseline(folder: Path, samples: SplitSamples, batch_size: int) -> float:
    per_window = samples.split.mel.shape[1]
    items = PerItem(folder / "train.h5", samples.unit == "segment", len(samples), per_window)
    loader = DataLoader(items, batch_size, shuffle=True, num_workers=2)
    warm = iter(loader)
    if len(loader) > 1:
        next(warm)  # its workers start
    return paced(warm, lambda batch: len(batch[1]), 5.0).rate


def index_select_rate(epochs: ResidentEpochs) -> float:
    mel = epochs.resident.mel
    order = torch.randperm(len(mel))
    pieces = (order[a:b] for a, b in pairwise(epochs.bounds.tolist()))
    threads = torch.get_num_threads()
    torch.set_num_threads(min(2, threads))
    try:
        return paced((mel.index_select(0, piece) for piece in pieces), len, 3.0).rate
    finally:
        torch.set_num_threads(threads)


def read_rate(path: Path, sample_bytes: int) -> float:
    """Samples per second of a bare read of the whole file."""
    buffer = bytearray(SMALL_SLAB)
    began, read = time.perf_counter(), 0
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            read += count
    return read / sample_bytes / (time.perf_counter() - began)


def sequential_rate(path: Path, dataset: str, sample_bytes: int, slab_bytes: int) -> float:
    """Samples per second of h5py reading all of `dataset` in order."""
    began = time.perf_counter()
    with h5py.File(path, "r") as file:
        mel = file[dataset]
        many = max(1, slab_bytes * len(mel) // mel.nbytes)
        for start in range(0, len(mel), many):
            mel[start : start + many]
        size = int(mel.nbytes)
    return size / sample_bytes / (time.perf_counter() - began)


# ------------------------------------------------------------------------------------------------ rows


def compared(folder: Path, store: Path, unit: str, batch_size: int) -> Iterator[dict[str, Any]]:
    """The loaders on `store` against one item by item on `folder`, which is measured before and after everything else:
    the machine may be another one by then.
    """
    items = samples_of(folder, unit)
    before = baseline(folder, items, batch_size)
    rows = {name: alone(measured, store, unit, batch_size, name) for name in ("ram", "stream")}
    per_item = (before + baseline(folder, items, batch_size)) / 2
    if store == folder:
        rows = {"per item, 2 workers": {"samples/s": per_item}, **rows}
    for name, row in rows.items():
        head = {
            "samples": unit,
            "batch": batch_size,
            "residency": name,
            "samples/s": row["samples/s"],
        }
        yield {**head, "times": row["samples/s"] / per_item, **row}


def alone(measure: Callable[..., Any], *arguments: Any) -> Any:
    """In a process of its own: how it keeps memory is nobody else's."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(measure, *arguments).result()


def epochs_of(samples: SplitSamples, data: DataConfig, residency: str) -> Epochs:
    if residency == "ram":
        return ResidentEpochs(ResidentSamples(samples), data, 0)
    return StreamEpochs(samples, data, 0)


def measured(store: Path, unit: str, batch_size: int, residency: str) -> dict[str, Any]:
    """A row, under what a training does to its process; a stream against a read that is spared it, and one that is not."""
    data = DataConfig(batch_size=batch_size, unit=unit)
    epochs = epochs_of(samples_of(store, unit), data, residency)
    gc.freeze()
    if residency == "ram":
        keep_freed_memory()
        return _row(epochs)
    row = _row(epochs)
    keep_freed_memory()
    return row | {"of kept": _row(epochs)["of sequential"]}


def _row(epochs: Epochs) -> dict[str, Any]:
    """Of epochs that follow another, as all but the first do."""
    loaded(epochs, 0)
    rounds, shares = [], []
    for number in range(ROUNDS):
        rounds.append(loaded(epochs, number + 1))
        shares.append({name: rounds[-1].rate / rate() for name, rate in _limits(epochs).items()})
    row: dict[str, Any] = {"samples/s": float(np.median([pace.rate for pace in rounds]))}
    row |= {name: float(np.median([share[name] for share in shares])) for name in shares[0]}
    return row | _batch_times([time for pace in rounds for time in pace.times])


def _limits(epochs: Epochs) -> dict[str, Callable[[], float]]:
    """What no loader of this kind can pass."""
    if isinstance(epochs, ResidentEpochs):
        return {"of index_select": lambda: index_select_rate(epochs)}
    assert isinstance(epochs, StreamEpochs)
    part = epochs.reader.samples.split.mel.parts[0]
    size = epochs.reader.samples.split.mel.window_bytes // epochs.reader.samples.per_window
    return {
        "of sequential": lambda: sequential_rate(part.path, part.dataset, size, LARGE_SLAB),
        "of cached": lambda: sequential_rate(part.path, part.dataset, size, SMALL_SLAB),
        "of read()": lambda: read_rate(part.path, size),
    }


def _batch_times(times: list[float]) -> dict[str, float]:
    median, p99, worst = np.percentile(times, [50, 99, 100]).tolist()
    return {"median ms": 1e3 * median, "p99 ms": 1e3 * p99, "worst ms": 1e3 * worst}


def waiting(folder: Path, residency: str) -> dict[str, Any]:
    """Share of the second epoch of the default network that passes before a batch is there."""
    epochs = epochs_of(samples_of(folder, "window"), DataConfig(batch_size=512), residency)
    loaded(epochs, 0)
    gc.freeze()  # as a training on a CPU does, both
    keep_freed_memory()
    network = make_network(NetworkConfig(), FIELD.mel_shape, 2)
    waits, began = [], time.perf_counter()
    batches = epochs.batches(1)
    for _ in range(len(epochs)):
        before = time.perf_counter()
        batch = next(batches)
        waits.append(time.perf_counter() - before)
        output = network(batch.mel.float())
        torch.nn.functional.cross_entropy(output.class_logits, batch.class_id).backward()  # type: ignore[no-untyped-call]
    share = sum(waits) / (time.perf_counter() - began)
    row = {
        "samples": "window",
        "batch": 512,
        "residency": f"{residency}, default network",
        "wait": share,
    }
    return row | _batch_times(waits)


def worker_memory(folder: Path) -> dict[str, Any]:
    """Resident memory of the worker processes of a stream, after its fifth epoch against after its first."""
    data = DataConfig(batch_size=512, workers=2)
    epochs = StreamEpochs(samples_of(folder, "window"), data, 0)
    held = []
    for epoch in range(5):
        for _ in epochs.batches(epoch):
            pass
        children = psutil.Process().children(recursive=True)
        held.append(
            sum(
                child.memory_info().rss
                for child in children
                if "multiprocessing" in " ".join(child.cmdline())
            )
        )
    return {
        "samples": "window",
        "batch": 512,
        "residency": "stream, 2 workers",
        "memory": held[-1] / held[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recordings", type=int, default=2000)
    parser.add_argument("--windows", type=int, default=80)
    parser.add_argument("--dry-run", action="store_true", help="print the rows and write nothing")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder, old = Path(name, "store"), Path(name, "old")
        for place, write in ((folder, write_store), (old, write_predecessors_store)):
            place.mkdir()
            write(place, arguments.recordings, arguments.windows)
        for row in _all_rows(folder, old):
            print(row, flush=True)
            rows.append(row)
    if arguments.dry_run:
        return
    size = f"{arguments.recordings:,} recordings of {arguments.windows} windows"
    write_section("data", f"The data path: {size}", rows, " ".join(NOTE.split("\n")))


def _all_rows(folder: Path, old: Path) -> Iterator[dict[str, Any]]:
    for unit in ("segment", "window"):
        for batch_size in (512, 8192):
            yield from compared(folder, folder, unit, batch_size)
    for row in compared(folder, old, "segment", 8192):
        yield {**row, "residency": f"{row['residency']}, predecessor"}
    for residency in ("ram", "stream"):
        yield alone(waiting, folder, residency)
    yield worker_memory(folder)


if __name__ == "__main__":
    main()
