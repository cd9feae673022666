"""A split as the samples of the network: which belongs to which recording, of what class and weight, and where it lies."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from leakdet.detection.detector import as_samples, sample_shape
from leakdet.storage.store import StoreSplit


class Batch(NamedTuple):
    """mel [B, U, M, T] float16; class_id, weight and recording [B]: true class, training weight, row of the recording."""

    mel: Tensor
    class_id: Tensor
    weight: Tensor
    recording: Tensor


def batch_memory(shape: tuple[int, ...], dtype: torch.dtype, pin: bool) -> Tensor:
    """Room for a batch; pinned, where an accelerator is to copy from it while it computes."""
    if pin:
        return torch.empty(shape, dtype=dtype, pin_memory=True)
    # numpy's, because it asks for large pages: batches of 30 MB are gathered in a quarter less time
    return torch.from_numpy(np.empty(shape, torch.empty(0, dtype=dtype).numpy().dtype))


def gathered(table: Tensor, index: Tensor, pin: bool) -> Tensor:
    """table[index] along the first axis, in pinned memory where asked.

    On a CPU by one thread: copying waits for memory, and torch's threads wait for each other while another one reads ahead or
    another process has the core (measured: six times slower on two busy cores).
    """
    if table.device.type != "cpu":
        return table.index_select(0, index)
    out = batch_memory((len(index), *table.shape[1:]), table.dtype, pin)
    take_into(out.numpy(), table.numpy(), index.numpy())
    return out


def take_into(out: np.ndarray, table: np.ndarray, index: np.ndarray) -> None:
    """out[:] = table[index], along the first axis; every index must be there."""
    # "clip", because numpy checks the bounds in a second copy otherwise
    table.take(index, 0, out=out, mode="clip")


def at_once(samples: "SplitSamples", batch_size: int, gather_bytes: int) -> int:
    """How many batches are gathered as one, to hold about `gather_bytes` of mel: a small gather costs mostly its call."""
    batch_bytes = samples.split.mel.window_bytes * batch_size / samples.per_window
    return max(1, round(gather_bytes / batch_bytes))


def divided(several: Batch, sizes: list[int]) -> Iterator[Batch]:
    """Batches of these sizes, each a part of `several`."""
    if len(sizes) == 1:
        return iter([several])
    return map(Batch, *(torch.split_with_sizes(column, sizes) for column in several))


@dataclass(frozen=True)
class SplitSamples:
    """The samples of a split, numbered recording after recording. Holds arrays over recordings only, whatever its size."""

    split: StoreSplit
    class_of_recording: np.ndarray  # int64 [R]
    unit: str  # window | segment
    for_accelerator: bool = False  # whether batches go on to one

    @property
    def pins(self) -> bool:
        """Whether batches belong in pinned memory: not in a worker process, which sends them to the training process."""
        return self.for_accelerator and get_worker_info() is None

    @property
    def per_window(self) -> int:
        return int(self.split.mel.shape[1]) if self.unit == "segment" else 1

    @property
    def shape(self) -> tuple[int, int, int]:
        """[U, M, T] of one sample."""
        return sample_shape(self.split.mel.shape[1:], self.unit)

    @cached_property
    def offsets(self) -> np.ndarray:
        """Samples of recording r are offsets[r]:offsets[r + 1], int64 [R + 1]."""
        return self.split.recording_offsets * self.per_window

    @cached_property
    def weight_of_recording(self) -> np.ndarray:
        return self.split.numbers("weight", default=1.0).astype(np.float32)

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def class_counts(self, classes: int = 0) -> np.ndarray:
        """Samples of each class, int64 [classes], or as many as occur."""
        return np.bincount(self.class_of_recording, np.diff(self.offsets), classes).astype(np.int64)

    def mean_weights(self, classes: int = 0) -> np.ndarray:
        """Mean training weight of each class's samples, float64 [classes]; 1 where there are none."""
        size = np.diff(self.offsets)
        total = np.bincount(self.class_of_recording, size * self.weight_of_recording, classes)
        count = self.class_counts(classes)
        return np.where(count > 0, total / np.maximum(1, count), 1.0)

    def read(self, start: int, stop: int) -> Tensor:
        """mel of samples [start, stop) from the files, [stop - start, U, M, T], in memory of its own."""
        first, last = start // self.per_window, -(-stop // self.per_window)
        samples = as_samples(torch.from_numpy(self.split.read(first, last)), self.unit)
        return samples[start - first * self.per_window : stop - first * self.per_window]

    def room(self, size: int) -> Tensor:
        """Memory for the mel of so many samples."""
        return batch_memory((size, *self.shape), torch.float16, self.pins)

    def described(self, mel: Tensor, recording: np.ndarray) -> Batch:
        """A batch of samples, in the host's memory, that belong to these recordings, int64 [B]."""
        row = torch.from_numpy(recording)
        classes, weights = map(
            torch.from_numpy, (self.class_of_recording, self.weight_of_recording)
        )
        return Batch(mel, gathered(classes, row, self.pins), gathered(weights, row, self.pins), row)

    def batch(self, start: int, stop: int) -> Batch:
        """Samples [start, stop), read from the files."""
        return self.described(self.read(start, stop), self.recording_of(start, stop))

    def recording_of(self, start: int, stop: int) -> np.ndarray:
        """Recording of each of the samples [start, stop), int64."""
        first = int(np.searchsorted(self.offsets, start, side="right")) - 1
        last = int(np.searchsorted(self.offsets, stop, side="left"))
        inner = np.clip(self.offsets[first : last + 1], start, stop)
        return np.repeat(np.arange(first, last), np.diff(inner))

    def __getstate__(self) -> dict[str, object]:
        return {
            name: self.__dict__[name]
            for name in ("split", "class_of_recording", "unit", "for_accelerator")
        }
