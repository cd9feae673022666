"""Samples that stay in memory, the host's or the accelerator's: a batch is one gather, and no process is needed to load it."""

import warnings
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from leakdet.config import DataConfig
from leakdet.detection.detector import as_samples
from leakdet.storage.checking import check_contents
from leakdet.training.samples import (
    PIECE_BYTES,
    Batch,
    SplitSamples,
    at_once,
    batch_memory,
    by_two,
    divided,
    gathered,
)
from leakdet.training.sampling import batch_bounds, epoch_draws, epoch_order, share_sizes

GATHER_BYTES = 16 << 20  # of mel gathered at once: threads that meet and new memory cost less by the sample


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
        owner = np.repeat(
            np.arange(samples.split.recordings, dtype=np.int32), samples.split.windows_per_recording
        )
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

    def take(self, index: Tensor) -> Batch:
        """Samples `index` [B], any order, duplicates allowed. `index` lies on the device of the samples."""
        if self.device.type != "cpu":
            return Batch(gathered(self.mel, index, False), *self._about(index))
        about: list[tuple[Tensor, Tensor, Tensor]] = []
        mel = batch_memory((len(index), *self.mel.shape[1:]), self.mel.dtype, self.samples.pins)
        rows, chosen, into = self.mel.numpy(), index.numpy(), mel.numpy()

        def gather(piece: slice) -> None:
            rows.take(chosen[piece], 0, out=into[piece], mode="clip")

        step = max(1, PIECE_BYTES * self.samples.per_window // self.samples.split.mel.window_bytes)
        pieces = [partial(gather, slice(start, start + step)) for start in range(0, len(chosen), step)]
        by_two([lambda: about.append(self._about(index)), *pieces], self._second)
        return Batch(mel, *about[0])

    def cut(self, start: int, stop: int) -> Batch:
        """Samples [start, stop) as they lie, without a copy."""
        return Batch(self.mel[start:stop], *self._about(torch.arange(start, stop, device=self.device)))

    def _about(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """class_id, weight and recording of samples."""
        pin = self.samples.pins
        recording = gathered(self._recording, self._window_of(index), pin).long()
        return gathered(self._class, recording, pin), gathered(self._weight, recording, pin), recording

    def _window_of(self, index: Tensor) -> Tensor:
        each = self.samples.per_window
        if each == 1:
            return index
        if index.device.type == "cpu":
            return torch.from_numpy(index.numpy() // each)  # torch divides each number by itself
        return torch.div(index, each, rounding_mode="floor")


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
        self._class_of_sample = np.repeat(
            samples.class_of_recording.astype(np.int16), np.diff(samples.offsets)
        )
        draws = epoch_draws(samples.class_counts(), data.sampling, 0, data.curriculum_epochs)
        self.bounds = batch_bounds(int(draws.sum()), data.batch_size, world)
        self._sizes = share_sizes(self.bounds, rank, world)
        self._at_once = at_once(samples, data.batch_size, GATHER_BYTES)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="next-epoch")
        self._ahead: tuple[int, Future[Tensor]] | None = None

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def _order(self, epoch: int) -> Tensor:
        """This rank's samples in the order of the epoch."""
        data = self.data
        order = epoch_order(self._class_of_sample, data.sampling, self.seed, epoch, data.curriculum_epochs)
        if self.world > 1:
            order = np.concatenate([order[a + self.rank : b : self.world] for a, b in pairwise(self.bounds)])
        return torch.from_numpy(order)

    def _order_in_time(self, epoch: int) -> Tensor:
        """The order of the epoch, drawn while the epoch before it ran."""
        ready = self._ahead[1].result() if self._ahead and self._ahead[0] == epoch else self._order(epoch)
        self._ahead = epoch + 1, self._thread.submit(self._order, epoch + 1)
        return ready

    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Batches `start`, start + 1, … of the epoch. The order goes to the device once; small batches are gathered as one."""
        order = self._order_in_time(epoch).to(self.resident.device)
        ends = np.cumsum(self._sizes)
        for first in range(start, len(self), self._at_once):
            sizes = self._sizes[first : first + self._at_once].tolist()
            stop = int(ends[first + len(sizes) - 1])
            yield from divided(self.resident.take(order[stop - sum(sizes) : stop]), sizes)
