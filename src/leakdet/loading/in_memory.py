"""Training batches from samples in the memory of the host or of an accelerator."""

import warnings
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float16, Int
from torch import Tensor

from leakdet.config import DataConfig
from leakdet.detection.detector import as_samples
from leakdet.loading.epoch_order import epoch_order
from leakdet.loading.samples import Batch, SplitSamples, take_rows
from leakdet.loading.train_loader import TrainLoader
from leakdet.storage.integrity import check_contents
from leakdet.storage.store import StoreSplit


class InMemorySamples:
    """The samples of a split in memory.

    Every recording is verified while it is read, so that a damaged file is found before epoch 0.

    Raises:
        InputError: a recording's checksum does not match, it holds NaN or infinite values, or its
            mel was never computed.
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
