"""Samples that stay in memory, the host's or the accelerator's: a batch is one gather, and no process is needed to load it."""

import warnings
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from leakdet.config import DataConfig
from leakdet.detection.detector import as_samples
from leakdet.storage.checking import check_contents
from leakdet.training.samples import Batch, SplitSamples
from leakdet.training.sampling import batch_bounds, epoch_draws, epoch_order


class ResidentSamples:
    """A split's mel [N, U, M, T] in memory, with the recording, class and weight of each sample.

    Reading it checks it: every recording against its stored checksum, so that a damaged file is found before epoch 0.

    Raises:
        InputError: a recording's mel is not what was written, or holds NaN or infinite values.
    """

    def __init__(self, samples: SplitSamples) -> None:
        self.samples = samples
        check_contents(samples.split)
        self.mel = as_samples(_in_memory(samples), samples.unit)
        owner = np.repeat(
            np.arange(len(samples.class_of_recording), dtype=np.int32), np.diff(samples.offsets)
        )
        self.recording = torch.from_numpy(owner)
        self._class = torch.from_numpy(samples.class_of_recording)
        self._weight = torch.from_numpy(samples.weight_of_recording)

    @property
    def device(self) -> torch.device:
        return self.mel.device

    def to(self, device: torch.device) -> "ResidentSamples":
        """Move everything to `device`, for good."""
        for name in ("mel", "recording", "_class", "_weight"):
            setattr(self, name, getattr(self, name).to(device))
        return self

    def take(self, index: Tensor) -> Batch:
        """Samples `index` [B], any order, duplicates allowed. `index` lies on the device of the samples."""
        mel = self.mel.index_select(0, index)
        return self._described(_pinned(mel), self.recording.index_select(0, index))

    def cut(self, start: int, stop: int) -> Batch:
        """Samples [start, stop) as they lie, without a copy."""
        return self._described(self.mel[start:stop], self.recording[start:stop])

    def _described(self, mel: Tensor, recording: Tensor) -> Batch:
        return Batch(
            mel,
            self._class.index_select(0, recording),
            self._weight.index_select(0, recording),
            recording.long(),
        )


def _pinned(mel: Tensor) -> Tensor:
    """In memory from which an accelerator, where there is one, can copy while it computes."""
    return mel.pin_memory() if mel.device.type == "cpu" and torch.cuda.is_available() else mel


def _in_memory(samples: SplitSamples) -> Tensor:
    """[W, S, M, T]: a memory map where the split is one uncompressed file, shared by all processes; otherwise a copy."""
    mel = samples.split.mel
    mapped = mel.parts[0].mapped if len(mel.parts) == 1 else None
    if mapped is None:
        return torch.from_numpy(samples.split.read(0, samples.split.windows))
    with warnings.catch_warnings():  # the tensor is only ever gathered from
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(mapped)


class ResidentEpochs:
    """The batches of every epoch of this rank, gathered from samples in memory."""

    def __init__(
        self, resident: ResidentSamples, data: DataConfig, seed: int, rank: int = 0, world: int = 1
    ) -> None:
        self.resident, self.data, self.seed = resident, data, seed
        self.rank, self.world = rank, world
        self._class_of_sample = np.repeat(
            resident.samples.class_of_recording, np.diff(resident.samples.offsets)
        )
        counts = np.bincount(resident.samples.class_of_recording, np.diff(resident.samples.offsets))
        draws = epoch_draws(counts.astype(np.int64), data.sampling, 0, data.curriculum_epochs)
        self.bounds = batch_bounds(int(draws.sum()), data.batch_size, world)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def _order(self, epoch: int) -> np.ndarray:
        data = self.data
        return epoch_order(self._class_of_sample, data.sampling, self.seed, epoch, data.curriculum_epochs)

    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Batches `start`, start + 1, … of the epoch. The order goes to the device once, not batch by batch."""
        order = torch.from_numpy(self._order(epoch)).to(self.resident.device)
        for number in range(start, len(self)):
            low, high = self.bounds[number], self.bounds[number + 1]
            yield self.resident.take(order[low + self.rank : high : self.world])
