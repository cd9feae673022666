"""Samples that stay in memory, the host's or the accelerator's: a batch is one gather, and no process is needed to load it."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leakdet.config import DataConfig
from leakdet.detection.detector import as_samples
from leakdet.storage.checking import check_contents
from leakdet.training.samples import Batch, SplitSamples, at_once, divided, gathered
from leakdet.training.sampling import EpochOrder, batch_bounds, epoch_draws, share_sizes

# of mel gathered at once: between two gathers, both threads wait for code and tables that the mel drove out of the cache
GATHER_BYTES = 32 << 20
PIECE_BYTES = 512 << 10  # of mel that one of two threads gathers before it looks for more


class ResidentSamples:
    """A split's mel [N, U, M, T] in memory, with the recording, class and weight of each sample.

    Reading it checks it: every recording against its stored checksum, so that a damaged file is found before epoch 0.

    Raises:
        InputError: a recording's mel is not what was written, holds NaN or infinite values, or was never computed.
    """

    def __init__(self, samples: SplitSamples) -> None:
        self.samples = samples
        self.checksums = check_contents(samples.split)
        self.mel = as_samples(_in_memory(samples), samples.unit)
        # by window, not by sample: the table stays in the processor's cache while samples are drawn at random
        owner = np.repeat(np.arange(samples.split.recordings), samples.split.windows_per_recording)
        self._recording = torch.from_numpy(owner)
        self._class = torch.from_numpy(samples.class_of_recording)
        self._weight = torch.from_numpy(samples.weight_of_recording)
        self._second = ThreadPoolExecutor(1, thread_name_prefix="gather")

    @property
    def device(self) -> torch.device:
        return self.mel.device

    def to(self, device: torch.device) -> "ResidentSamples":
        """Move everything to `device`, for good."""
        for name in ("mel", "_recording", "_class", "_weight"):
            setattr(self, name, getattr(self, name).to(device))
        return self

    def take(self, index: np.ndarray, meanwhile: Callable[[], np.ndarray]) -> tuple[Batch, np.ndarray]:
        """Samples `index`, int64 [B], any order, duplicates allowed; and what `meanwhile` makes beside them."""
        rows = torch.from_numpy(index)
        if self.device.type != "cpu":
            if self.samples.pins:  # or the copy would wait for all that the accelerator has to do before it
                rows = rows.pin_memory()
            rows = rows.to(self.device, non_blocking=True)
            return Batch(gathered(self.mel, rows, False), *self._about(rows)), meanwhile()
        batch = self.samples.room(len(index))
        mel, out = self.mel.numpy(), batch.numpy()

        def gather(start: int) -> None:
            stop = start + step
            mel.take(index[start:stop], 0, out=out[start:stop], mode="clip")

        step = max(1, PIECE_BYTES * self.samples.per_window // self.samples.split.mel.window_bytes)
        pieces = [partial(gather, start) for start in range(0, len(index), step)]
        made, about, *_ = by_two([meanwhile, partial(self._about, rows), *pieces], self._second)
        return Batch(batch, *about), made

    def cut(self, start: int, stop: int) -> Batch:
        """Samples [start, stop) as they lie, without a copy."""
        return Batch(self.mel[start:stop], *self._about(torch.arange(start, stop, device=self.device)))

    def _about(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """class_id, weight and recording of samples.

        By numpy in the host's memory: each thread that calls torch for many numbers gets threads of its own from it, which then
        wait spinning, on the cores that the other one needs.
        """
        pin = self.samples.pins
        recording = gathered(self._recording, self._window_of(index), pin)
        return gathered(self._class, recording, pin), gathered(self._weight, recording, pin), recording

    def _window_of(self, index: Tensor) -> Tensor:
        each = self.samples.per_window
        if each == 1:
            return index
        if index.device.type == "cpu":
            return torch.from_numpy(index.numpy() // each)
        return torch.div(index, each, rounding_mode="floor")


def by_two(tasks: Sequence[Callable[[], Any]], second: ThreadPoolExecutor) -> list[Any]:
    """What the tasks return, each run by this thread or by the second one, whichever is free.

    Where torch may use one thread only, or the second has no core, this one runs them all and waits for nobody.
    """
    results = [None] * len(tasks)
    waiting = iter(range(len(tasks)))

    def work() -> None:
        for number in waiting:
            results[number] = tasks[number]()

    helping = second.submit(work) if torch.get_num_threads() > 1 else None
    work()
    if helping is not None and not helping.cancel():
        helping.result()
    return results


def _in_memory(samples: SplitSamples) -> Tensor:
    """[W, S, M, T]: a memory map where the split is one uncompressed file, shared by all processes; otherwise a copy."""
    mapped = samples.split.mel.mapped
    if mapped is None:
        return torch.from_numpy(samples.split.read(0, samples.split.windows))
    with warnings.catch_warnings():  # the tensor is only ever gathered from
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(mapped)


class ResidentEpochs:
    """The batches of every epoch of this rank, gathered from samples in memory."""

    order = "in memory (data.residency=ram or device)"  # the same batches on any number of processes

    def __init__(
        self, resident: ResidentSamples, data: DataConfig, seed: int, rank: int = 0, world: int = 1
    ) -> None:
        self.resident, self.data, self.seed = resident, data, seed
        self.rank, self.world = rank, world
        samples = resident.samples
        class_of_window = np.repeat(samples.class_of_recording, samples.split.windows_per_recording)
        counts = samples.class_counts()
        self._windows_of_class = [np.flatnonzero(class_of_window == number) for number in range(len(counts))]
        draws = epoch_draws(counts, data.sampling, 0, data.curriculum_epochs)
        self.bounds = batch_bounds(int(draws.sum()), data.batch_size, world)
        self._sizes = share_sizes(self.bounds, rank, world)
        self._at_once = at_once(samples, data.batch_size, GATHER_BYTES)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Batches `start`, start + 1, … of the epoch. Small ones are gathered as one."""
        data, per_window = self.data, self.resident.samples.per_window
        order = EpochOrder(
            self._windows_of_class, per_window, data.sampling, self.seed, epoch, data.curriculum_epochs
        )
        index = self._drawn(order, start)
        for first in range(start, len(self), self._at_once):
            coming = partial(self._drawn, order, first + self._at_once)
            several, index = self.resident.take(index, coming)
            yield from divided(several, self._sizes[first : first + self._at_once].tolist())

    def _drawn(self, order: EpochOrder, first: int) -> np.ndarray:
        """This rank's samples of the batches that are gathered as one from `first` on, int64 [n]; none after the last."""
        bounds = self.bounds[first : first + self._at_once + 1].tolist()
        places = (np.arange(a + self.rank, b, self.world) for a, b in pairwise(bounds))
        return order.at(np.concatenate([np.arange(0), *places]))
