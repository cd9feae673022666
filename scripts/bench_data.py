"""How fast windows reach the network, against a Dataset read item by item: the section `data` of docs/benchmarks.md."""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks import write_section
from leakdet.config import DataConfig, SignalConfig
from leakdet.storage.opening import open_any_split
from leakdet.storage.store_writer import RecordingRow, SplitWriter
from leakdet.training.loaders import Epochs
from leakdet.training.resident import ResidentEpochs, ResidentSamples
from leakdet.training.samples import Batch, SplitSamples
from leakdet.training.streaming import StreamEpochs

FIELD = SignalConfig(fmax_hz=8000)
NOTE = """Data path alone, batch after batch into the training process, file in the page cache, second epoch. `times` compares
the samples per second with the baseline of the same run: a map-style `Dataset` that opens the file once per worker and reads
an item with h5py, in a `DataLoader` with 2 workers. `of index_select`: share of a bare `torch.index_select` of the same batches
from the same tensor; `of sequential`: share of a plain sequential read of the file. `wait`: share of an epoch of the default
network that passes waiting for data; median, p99 and worst time of a batch in ms."""


class PerItem(Dataset[tuple[torch.Tensor, int]]):
    """The baseline: one sample at a time, straight from HDF5."""

    def __init__(self, path: Path, segments: bool, samples: int, per_window: int) -> None:
        self.path, self.segments, self.samples, self.per_window = path, segments, samples, per_window
        self.mel: h5py.Dataset | None = None

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if self.mel is None:
            self.mel = h5py.File(self.path, "r")["mel"]
        window, segment = divmod(index, self.per_window)
        row = self.mel[window, segment : segment + 1] if self.segments else self.mel[window]
        return torch.from_numpy(row), index % 2


def write_store(folder: Path, recordings: int, windows: int, split: str = "train") -> None:
    """A split of noise-like mel: 2,000 recordings of 80 `field` windows are 614 MB."""
    import io

    writer = SplitWriter(folder, split, FIELD)
    rng = np.random.default_rng(0)
    mel = rng.normal(-60, 9, (windows, *FIELD.mel_shape)).astype(np.float16)
    starts = np.arange(windows, dtype=np.float32)
    for number in range(recordings):
        name = f"{split}{number}"
        row = RecordingRow(
            name, f"{name}.wav", "LEAK" if number % 2 else "NORMAL", {}, 1.0, name, windows / 2, 16000,
            -40.0, 0.0, 0.0, [], windows, 0,
        )  # fmt: skip
        writer.add(row, starts, io.BytesIO(np.roll(mel, number, axis=0).tobytes()), None)
    writer.write(folder / f"{split}.h5", ["LEAK", "NORMAL"], "LEAK")


def rate(
    batches: Iterator[Any], size: Callable[[Any], int], seconds: float = 4.0
) -> tuple[float, list[float]]:
    """Samples per second, and the time of each batch, over at most so many seconds."""
    times, samples = [], 0
    began = before = time.perf_counter()
    for batch in batches:
        now = time.perf_counter()
        times.append(now - before)
        samples += size(batch)
        before = now
        if now - began > seconds:
            break
    return samples / (before - began), times


def second_epoch(epochs: Epochs) -> tuple[float, list[float]]:
    """Of an epoch that follows another, as all but the first do."""
    rate(epochs.batches(0), lambda batch: len(batch.class_id))
    return rate(epochs.batches(1), lambda batch: len(batch.class_id))


def index_select_rate(epochs: ResidentEpochs) -> float:
    mel, bounds = epochs.resident.mel, epochs.bounds
    order = torch.randperm(len(mel))
    pieces = (order[a:b] for a, b in pairwise(bounds))
    return rate((mel.index_select(0, piece) for piece in pieces), len)[0]


def sequential_rate(path: Path, sample_bytes: int) -> float:
    buffer = bytearray(4 << 20)
    began, read = time.perf_counter(), 0
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            read += count
    return read / sample_bytes / (time.perf_counter() - began)


def compared(folder: Path, unit: str, batch_size: int) -> list[dict[str, Any]]:
    split = open_any_split(folder, "train")
    samples = SplitSamples(split, np.array(split.label_id), unit)
    path = folder / "train.h5"
    sample_bytes = split.mel.window_bytes // samples.per_window
    item = DataLoader(
        PerItem(path, unit == "segment", len(samples), split.mel.shape[1]),
        batch_size,
        shuffle=True,
        num_workers=2,
    )
    warm = iter(item)
    next(warm)
    baseline, _ = rate(warm, lambda batch: len(batch[1]), 6.0)
    del warm
    data = DataConfig(batch_size=batch_size, unit=unit)
    rows = [
        {
            "samples": unit,
            "batch": batch_size,
            "residency": "per item, 2 workers",
            "samples/s": baseline,
            "times": 1.0,
        }
    ]
    for residency in ("ram", "stream"):
        epochs: Epochs = (
            ResidentEpochs(ResidentSamples(samples), data, 0)
            if residency == "ram"
            else StreamEpochs(samples, data, 0)
        )
        found, times = second_epoch(epochs)
        row = {
            "samples": unit, "batch": batch_size, "residency": residency, "samples/s": found, "times": found / baseline,
        }  # fmt: skip
        if isinstance(epochs, ResidentEpochs):
            row["of index_select"] = found / index_select_rate(epochs)
        else:
            row["of sequential"] = found / sequential_rate(path, sample_bytes)
        row |= {
            "median ms": 1e3 * float(np.median(times)),
            "p99 ms": 1e3 * float(np.percentile(times[1:], 99)),
        }
        rows.append({**row, "worst ms": 1e3 * max(times[1:])})
    return rows


def waiting(folder: Path, residency: str) -> dict[str, Any]:
    """Share of the time of some steps of the default network that passes before their batch is there."""
    from leakdet.config import NetworkConfig
    from leakdet.detection.networks import make_network

    split = open_any_split(folder, "train")
    samples = SplitSamples(split, np.array(split.label_id), "window")
    data = DataConfig(batch_size=512)
    epochs: Epochs = (
        ResidentEpochs(ResidentSamples(samples), data, 0)
        if residency == "ram"
        else StreamEpochs(samples, data, 0)
    )
    network = make_network(NetworkConfig(), FIELD.mel_shape, 2)
    waits, began = [], time.perf_counter()
    batches = epochs.batches(1)
    for _ in range(40):
        before = time.perf_counter()
        batch: Batch = next(batches)
        waits.append(time.perf_counter() - before)
        output = network(batch.mel.float())
        torch.nn.functional.cross_entropy(output.class_logits, batch.class_id).backward()  # type: ignore[no-untyped-call]
    return {
        "samples": "window", "batch": 512, "residency": f"{residency}, default network",
        "wait": sum(waits) / (time.perf_counter() - began), "median ms": 1e3 * float(np.median(waits)),
        "p99 ms": 1e3 * float(np.percentile(waits[1:], 99)), "worst ms": 1e3 * max(waits[1:]),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recordings", type=int, default=2000)
    parser.add_argument("--windows", type=int, default=80)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_store(folder, arguments.recordings, arguments.windows)
        rows = [
            row
            for unit in ("segment", "window")
            for batch in (512, 8192)
            for row in compared(folder, unit, batch)
        ]
        rows += [waiting(folder, residency) for residency in ("ram", "stream")]
    size = f"{arguments.recordings:,} recordings of {arguments.windows} windows"
    write_section("data", f"The data path: {size}", rows, " ".join(NOTE.split("\n")))
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
