"""A split as the samples of the network: which belongs to which recording, of what class and weight, and where it lies."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from leakdet.detection.detector import as_samples
from leakdet.storage.store import StoreSplit


class Batch(NamedTuple):
    """mel [B, U, M, T] float16; class_id, weight and recording [B]: true class, training weight, row of the recording."""

    mel: Tensor
    class_id: Tensor
    weight: Tensor
    recording: Tensor


def gathered(mel: Tensor, index: Tensor) -> Tensor:
    """mel[index] along the first axis. On a CPU by one thread: copying waits for memory, and torch's threads wait for each
    other while another one reads ahead or another process has the core (measured: six times slower on two busy cores).
    """
    if mel.device.type != "cpu":
        return mel.index_select(0, index)
    return torch.from_numpy(np.take(mel.numpy(), index.numpy(), axis=0))


@dataclass(frozen=True)
class SplitSamples:
    """The samples of a split, numbered recording after recording. Holds arrays over recordings only, whatever its size."""

    split: StoreSplit
    class_of_recording: np.ndarray  # int64 [R]
    unit: str  # window | segment

    @property
    def per_window(self) -> int:
        return int(self.split.mel.shape[1]) if self.unit == "segment" else 1

    @cached_property
    def offsets(self) -> np.ndarray:
        """Samples of recording r are offsets[r]:offsets[r + 1], int64 [R + 1]."""
        return self.split.recording_offsets * self.per_window

    @cached_property
    def weight_of_recording(self) -> np.ndarray:
        return self.split.numbers("weight", default=1.0).astype(np.float32)

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def class_counts(self, classes: int) -> np.ndarray:
        """Samples of each class, int64 [classes]."""
        counts = np.zeros(classes, np.int64)
        np.add.at(counts, self.class_of_recording, np.diff(self.offsets))
        return counts

    def read(self, start: int, stop: int) -> Tensor:
        """mel of samples [start, stop) from the files, [stop - start, U, M, T], in memory of its own."""
        first, last = start // self.per_window, -(-stop // self.per_window)
        samples = as_samples(torch.from_numpy(self.split.read(first, last)), self.unit)
        return samples[start - first * self.per_window : stop - first * self.per_window]

    def described(self, mel: Tensor, recording: Tensor) -> Batch:
        """A batch of samples that belong to these recordings; the tables lie where `recording` does."""
        return Batch(
            mel,
            self._class_table.index_select(0, recording),
            self._weight_table.index_select(0, recording),
            recording.long(),
        )

    @cached_property
    def _class_table(self) -> Tensor:
        return torch.from_numpy(self.class_of_recording)

    @cached_property
    def _weight_table(self) -> Tensor:
        return torch.from_numpy(self.weight_of_recording)

    def batch(self, start: int, stop: int) -> Batch:
        """Samples [start, stop), read from the files."""
        return self.described(self.read(start, stop), torch.from_numpy(self.recording_of(start, stop)))

    def recording_of(self, start: int, stop: int) -> np.ndarray:
        """Recording of each of the samples [start, stop), int64."""
        first = int(np.searchsorted(self.offsets, start, side="right")) - 1
        last = int(np.searchsorted(self.offsets, stop, side="left"))
        inner = np.clip(self.offsets[first : last + 1], start, stop)
        return np.repeat(np.arange(first, last), np.diff(inner))

    def __getstate__(self) -> dict[str, object]:
        return {name: self.__dict__[name] for name in ("split", "class_of_recording", "unit")}
