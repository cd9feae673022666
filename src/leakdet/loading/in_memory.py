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
from leakdet.loading.samples import Batch, SplitSamples, at_once, divided, gathered, take_into
from leakdet.loading.sampling import EpochOrder, batch_bounds, epoch_draws, share_sizes
from leakdet.storage.integrity import check_contents

# of mel gathered at once: between two gathers, both threads wait for code and tables that the mel drove out of the cache
GATHER_BYTES = 24 << 20
PIECE_BYTES = 1 << 20  # of mel that one of two threads gathers before it looks for more


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

    def gather(
        self, index: np.ndarray, beside: Callable[[], np.ndarray]
    ) -> Callable[[], tuple[Batch, np.ndarray]]:
        """Begin to gather samples `index`, int64 [B], any order, duplicates allowed. What it returns finishes it: the samples,
        and what `beside` returns.
        """
        rows = torch.from_numpy(index)
        if self.device.type != "cpu":
            # or the copy would wait for all that the accelerator has to do before it
            if self.samples.pins:
                rows = rows.pin_memory()
            rows = rows.to(self.device, non_blocking=True)
            batch = Batch(gathered(self.mel, rows, False), *self._about(rows))
            return lambda: (batch, beside())
        room = self.samples.room(len(index))
        mel, out = self.mel.numpy(), room.numpy()

        def piece(start: int) -> None:
            stop = start + step
            take_into(out[start:stop], mel, index[start:stop])

        step = max(1, PIECE_BYTES * self.samples.per_window // self.samples.split.mel.window_bytes)
        pieces = [partial(piece, start) for start in range(0, len(index), step)]
        work = SharedWork([beside, partial(self._about, rows), *pieces], self._second)

        def finish() -> tuple[Batch, np.ndarray]:
            made, about, *_ = work.results()
            return Batch(room, *about), made

        return finish

    def cut(self, start: int, stop: int) -> Batch:
        """Samples [start, stop) as they lie, without a copy."""
        return Batch(
            self.mel[start:stop], *self._about(torch.arange(start, stop, device=self.device))
        )

    def _about(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """class_id, weight and recording of samples.

        By numpy in the host's memory: each thread that calls torch for many numbers gets threads of its own from it, which then
        wait spinning, on the cores that the other one needs.
        """
        pin = self.samples.pins
        recording = gathered(self._recording, self._window_of(index), pin)
        return (
            gathered(self._class, recording, pin),
            gathered(self._weight, recording, pin),
            recording,
        )

    def _window_of(self, index: Tensor) -> Tensor:
        each = self.samples.per_window
        if each == 1:
            return index
        if index.device.type == "cpu":
            return torch.from_numpy(index.numpy() // each)
        return torch.div(index, each, rounding_mode="floor")


class SharedWork:
    """Tasks that a second thread begins at once, and that the thread which asks for the results helps to finish.

    Where torch may use one thread only, or the second has no core, the one that asks does them all and waits for nobody.
    """

    def __init__(self, tasks: Sequence[Callable[[], Any]], second: ThreadPoolExecutor) -> None:
        self._tasks = tasks
        self._waiting = iter(range(len(tasks)))
        self._results: list[Any] = [None] * len(tasks)
        self._helping = second.submit(self._work) if torch.get_num_threads() > 1 else None

    def _work(self) -> None:
        for number in self._waiting:
            self._results[number] = self._tasks[number]()

    def results(self) -> list[Any]:
        """What the tasks returned, in their order. Raises what one of them raised."""
        self._work()
        if self._helping is not None and not self._helping.cancel():
            self._helping.result()
        return self._results


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

    # the same batches on any number of processes
    order = "in memory (data.residency=ram or device)"

    def __init__(
        self, resident: ResidentSamples, data: DataConfig, seed: int, rank: int = 0, world: int = 1
    ) -> None:
        self.resident, self.data, self.seed = resident, data, seed
        self.rank, self.world = rank, world
        samples = resident.samples
        class_of_window = np.repeat(samples.class_of_recording, samples.split.windows_per_recording)
        counts = samples.class_counts()
        self._windows_of_class = [
            np.flatnonzero(class_of_window == number) for number in range(len(counts))
        ]
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
            self._windows_of_class,
            per_window,
            data.sampling,
            self.seed,
            epoch,
            data.curriculum_epochs,
        )
        step = self._at_once
        finish = self.resident.gather(
            self._drawn(order, start), partial(self._drawn, order, start + step)
        )
        for first in range(start, len(self), step):
            several, index = finish()
            # the next ones are gathered while the network learns from these
            finish = self.resident.gather(index, partial(self._drawn, order, first + 2 * step))
            yield from divided(several, self._sizes[first : first + step].tolist())

    def _drawn(self, order: EpochOrder, first: int) -> np.ndarray:
        """This rank's samples of the batches that are gathered as one from `first` on, int64 [n]; none after the last."""
        bounds = self.bounds[first : first + self._at_once + 1].tolist()
        places = (np.arange(a + self.rank, b, self.world) for a, b in pairwise(bounds))
        return order.at(np.concatenate([np.arange(0), *places]))
