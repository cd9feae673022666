"""Loaders of batches from memory, for training and for evaluation, and their waits."""

import operator
import resource
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Float16, Int
from torch import Tensor

from leakdet.config import DataConfig
from leakdet.core.errors import InputError, SettingsError
from leakdet.detection.detector import as_samples
from leakdet.loading.order import epoch_bounds, epoch_order
from leakdet.loading.samples import Batch, SplitSamples, take_rows
from leakdet.storage.integrity import check_contents
from leakdet.storage.store import StoreSplit

T = TypeVar("T")
BLOCK = 512  # bytes, in which the kernel counts what is read from a disk


class Wait(NamedTuple):
    """The wait for a batch: when and how long, and the counts of this process and its threads."""

    batch: int  # number in its epoch
    opening: bool  # the first batch of its reader since the epoch began or was resumed
    starting: bool  # the reader is a process that had to start
    asked_s: float  # on the clock of time.monotonic
    seconds: float
    cpu_s: float  # processor time of all threads
    page_faults: int  # that were answered from a disk
    read_bytes: int  # from a disk; what was cached counts nothing


def timed(
    batches: Callable[[], Iterator[T]], first: int, readers: int = 1, starting: bool = False
) -> Iterator[tuple[T, Wait]]:
    """Batches, the first of which has the number `first` in its epoch, each with its wait.

    So many readers make them in turn; `starting`: they are processes that start. Two readings cost
    some five microseconds a batch.
    """
    began = _reading()
    for number, batch in enumerate(batches(), first):
        seconds, cpu_s, faults, blocks = map(operator.sub, _reading(), began)
        opening = number - first < readers
        counts = (cpu_s, int(faults), int(blocks) * BLOCK)
        yield batch, Wait(number, opening, opening and starting, began[0], seconds, *counts)
        began = _reading()


def _reading() -> tuple[float, float, int, int]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = usage.ru_utime + usage.ru_stime
    return time.monotonic(), cpu_s, usage.ru_majflt, usage.ru_inblock


# Raise it when (seed, epoch) gives another order: a checkpoint within an epoch is refused then.
ORDER_VERSION = 2


class TrainLoader(ABC):
    """The training batches of one rank, in an order that depends on (seed, epoch) alone.

    Lightning treats it as a DataLoader. It is its own sampler, so that Lightning sets the epoch,
    and has a state, so that a resumed run continues with the samples that the interrupted epoch had
    not seen. It shards by rank without padding: `data.batch_size` is of all ranks together, and all
    have the same number of batches.
    """

    order: str  # where the samples are: with the same seed, epoch and `order` they come alike

    def __init__(
        self, samples: SplitSamples, data: DataConfig, seed: int, rank: int = 0, world: int = 1
    ) -> None:
        self.samples, self.data, self.seed = samples, data, seed
        self.rank, self.world = rank, world
        self.bounds = epoch_bounds(samples.class_counts(), data, world)
        self.epoch = self.position = 0
        self._resume_at = 0
        self.sampler = self
        self.wait: Wait | None = None  # for the latest batch
        self._readers, self._starting = 1, False  # processes that make batches in turn

    @abstractmethod
    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Batches `start`, start + 1, … of the epoch."""

    def set_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch, self.position, self._resume_at = epoch, 0, 0

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def batch_sizes(self) -> Int[np.ndarray, " batches"]:
        """Samples in each batch of an epoch, of all ranks together."""
        return np.diff(self.bounds)

    def __iter__(self) -> Iterator[Batch]:
        start, self._resume_at = self._resume_at % len(self), 0
        starting, self._starting = self._starting, False
        batches = partial(self.batches, self.epoch, start)
        for batch, wait in timed(batches, start, self._readers, starting):
            self.wait, self.position = wait, wait.batch + 1
            yield batch

    def state_dict(self) -> dict[str, Any]:
        return {
            "epoch": self.epoch,
            "position": self.position,
            "order": self.order,
            "order_version": ORDER_VERSION,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state` was taken."""
        order, version = state["order"], state["order_version"]
        if (order, version) != (self.order, ORDER_VERSION) and state["position"] % len(self):
            now = self.order if order != self.order else "shuffled by another version of leakdet"
            raise SettingsError(
                f"The checkpoint was written within an epoch whose samples were {order}; now they "
                f"are {now}. Which samples the epoch had not seen yet is unknown. Resume with the "
                "data.residency, the number of processes and the version of leakdet of that run, "
                "or start a new training from its weights with init_from."
            )
        self.epoch, self.position = state["epoch"], state["position"]
        self._resume_at = self.position


class InMemorySamples:
    """The samples of a split in memory.

    Every recording is verified while it is read, so that a damaged file is found before epoch 0.
    """

    def __init__(self, samples: SplitSamples) -> None:
        self.samples = samples
        self.checksums = check_contents(samples.split)
        self.mel = as_samples(_windows(samples.split), samples.unit)
        recordings = np.arange(samples.split.recordings)
        recording_of_window = np.repeat(recordings, samples.split.windows_per_recording)
        self._recording_of_window = torch.from_numpy(recording_of_window)
        self._class_of_recording = torch.from_numpy(samples.class_of_recording)
        self._weight_of_recording = torch.from_numpy(samples.weight_of_recording)

    @property
    def device(self) -> torch.device:
        return self.mel.device

    def to(self, device: torch.device) -> "InMemorySamples":
        """Move everything to `device`, for good."""
        self.mel = self.mel.to(device)
        self._recording_of_window = self._recording_of_window.to(device)
        self._class_of_recording = self._class_of_recording.to(device)
        self._weight_of_recording = self._weight_of_recording.to(device)
        return self

    def take(self, index: Int[Tensor, " B"]) -> Batch:
        """Samples `index`, in any order, duplicates allowed."""
        return self._batch(take_rows(self.mel, index, self.samples.pins), index)

    def batch(self, start: int, stop: int) -> Batch:
        """Samples [start, stop), without a copy of their mel."""
        return self._batch(self.mel[start:stop], torch.arange(start, stop, device=self.device))

    def _batch(self, mel: Float16[Tensor, "B U M T"], index: Int[Tensor, " B"]) -> Batch:
        pin = self.samples.pins
        recording = take_rows(self._recording_of_window, index // self.samples.per_window, pin)
        return Batch(
            mel,
            take_rows(self._class_of_recording, recording, pin),
            take_rows(self._weight_of_recording, recording, pin),
            recording,
        )


def _windows(split: StoreSplit) -> Float16[Tensor, "W S M T"]:
    """A memory map, shared by all processes, if the split is one uncompressed file; else a copy."""
    mapped = split.mel.mapped
    if mapped is None:
        return torch.from_numpy(split.read(0, split.windows))
    with warnings.catch_warnings():  # nothing writes to the tensor
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(mapped)


class InMemoryLoader(TrainLoader):
    """Training batches from samples in memory, in one random order over the whole split."""

    order = "in memory (data.residency=ram or device)"  # the same on any number of processes

    def __init__(
        self, memory: InMemorySamples, data: DataConfig, seed: int, rank: int = 0, world: int = 1
    ) -> None:
        super().__init__(memory.samples, data, seed, rank, world)
        self.memory = memory

    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Batches `start`, start + 1, … of the epoch: every world-th sample of each."""
        classes, sizes = self.samples.class_of_recording, self.samples.size_of_recording
        drawn = epoch_order(classes, sizes, self.data, self.seed, epoch)
        order = torch.from_numpy(drawn).to(self.memory.device)
        for low, high in pairwise(self.bounds[start:].tolist()):
            yield self.memory.take(order[low + self.rank : high : self.world])


WINDOWS = 2048  # in a batch: affects memory, never a number


class EvalLoader:
    """The recordings of this rank, windows in order. Every recording is on exactly one rank.

    All ranks have the same number of batches: a network with buffers synchronises them at each
    batch, and a rank without one would leave the others waiting for ever.
    """

    def __init__(
        self, samples: SplitSamples, memory: InMemorySamples | None, rank: int = 0, world: int = 1
    ) -> None:
        self._source = samples if memory is None else memory
        split = samples.split
        if split.recordings < world:
            raise InputError(
                f"{split.files[0].parent}: {split.name} has {split.recordings} recordings for "
                f"{world} processes; each needs one. Use fewer trainer.devices."
            )
        first = recording_shares(split.windows_per_recording, world)
        start_of_rank = split.recording_offsets[first]
        windows = np.diff(start_of_rank)
        batches = min(-(-int(windows.max()) // WINDOWS), int(windows.min()))
        within_rank = np.arange(batches + 1) * windows[rank] // batches
        self.bounds = (start_of_rank[rank] + within_rank) * samples.per_window

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __iter__(self) -> Iterator[Batch]:
        for start, stop in pairwise(self.bounds.tolist()):
            yield self._source.batch(start, stop)


def recording_shares(windows: Int[np.ndarray, " R"], world: int) -> Int[np.ndarray, " bounds"]:
    """First recording of each rank, then the number of recordings; windows are shared out evenly.

    Every rank gets at least one recording; there must be as many.
    """
    starts = np.concatenate([[0], np.cumsum(windows)])
    shares = np.searchsorted(starts, np.arange(world + 1) * starts[-1] / world)
    for rank in range(1, world):
        # at least one recording for this rank, and one for each rank after it
        least, most = shares[rank - 1] + 1, len(windows) - (world - rank)
        shares[rank] = min(max(shares[rank], least), most)
    shares[0], shares[-1] = 0, len(windows)
    return np.asarray(shares)
