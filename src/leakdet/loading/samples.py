"""The samples of a split, numbered recording after recording, and batches of them."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float16, Float32, Int, Shaped
from torch import Tensor
from torch.utils.data import get_worker_info

from leakdet.detection.detector import as_samples, sample_shape
from leakdet.storage.store import StoreSplit


class Batch(NamedTuple):
    """Samples with their true class, training weight and recording (its row in the split)."""

    mel: Float16[Tensor, "B U M T"]
    class_id: Int[Tensor, " B"]
    weight: Float32[Tensor, " B"]
    recording: Int[Tensor, " B"]


def take_rows(
    table: Shaped[Tensor, "N *rest"], index: Int[Tensor, " B"], pin: bool = False
) -> Shaped[Tensor, "B *rest"]:
    """`table[index]`; in pinned memory where an accelerator is to copy it while it computes."""
    if table.device.type != "cpu":
        return table.index_select(0, index)
    rows = torch.empty((len(index), *table.shape[1:]), dtype=table.dtype, pin_memory=pin)
    take_into(rows.numpy(), table.numpy(), index.numpy())
    return rows


def take_into(
    out: Shaped[np.ndarray, "B *rest"],
    table: Shaped[np.ndarray, "N *rest"],
    index: Int[np.ndarray, " B"],
) -> None:
    """`out[:] = table[index]`, for valid indices.

    `Tensor.index_select` would take twice as long, and far longer where other processes use the
    cores: its threads wait for each other.
    """
    # "clip" clips nothing here, but spares a second copy, in which NumPy would check the indices
    table.take(index, 0, out=out, mode="clip")


@dataclass(frozen=True)
class SplitSamples:
    """The samples of a split. Holds arrays over recordings only, whatever the split's size."""

    split: StoreSplit
    class_of_recording: Int[np.ndarray, " R"]
    unit: str  # window | segment
    for_accelerator: bool = False  # whether batches are copied to one

    @property
    def pins(self) -> bool:
        """True if batches belong in pinned memory; a worker's, which are sent on, do not."""
        return self.for_accelerator and get_worker_info() is None

    @property
    def per_window(self) -> int:
        """Samples of one window."""
        return int(self.split.mel.shape[1]) if self.unit == "segment" else 1

    @property
    def shape(self) -> tuple[int, int, int]:
        """[U, M, T] of one sample."""
        return sample_shape(self.split.mel.shape[1:], self.unit)

    @property
    def size_of_recording(self) -> Int[np.ndarray, " R"]:
        """Samples of each recording."""
        return self.split.windows_per_recording * self.per_window

    @cached_property
    def offsets(self) -> Int[np.ndarray, " bounds"]:
        """Recording r has the samples offsets[r] to offsets[r + 1]."""
        return self.split.recording_offsets * self.per_window

    @cached_property
    def weight_of_recording(self) -> Float32[np.ndarray, " R"]:
        return self.split.numbers("weight", default=1.0).astype(np.float32)

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def class_counts(self, classes: int = 0) -> Int[np.ndarray, " C"]:
        """Samples of each of `classes` classes, or of as many as occur."""
        counts = np.bincount(self.class_of_recording, self.size_of_recording, classes)
        return counts.astype(np.int64)

    def mean_weights(self, classes: int = 0) -> Shaped[np.ndarray, " C"]:
        """Mean training weight of each class's samples; 1 for a class without samples."""
        weights = self.size_of_recording * self.weight_of_recording
        total = np.bincount(self.class_of_recording, weights, classes)
        count = self.class_counts(classes)
        return np.where(count > 0, total / np.maximum(1, count), 1.0)

    def read(self, start: int, stop: int) -> Float16[Tensor, "B U M T"]:
        """Samples [start, stop) from the files, in memory of their own."""
        first, last = start // self.per_window, -(-stop // self.per_window)
        samples = as_samples(torch.from_numpy(self.split.read(first, last)), self.unit)
        return samples[start - first * self.per_window : stop - first * self.per_window]

    def batch(self, start: int, stop: int) -> Batch:
        """Samples [start, stop), read from the files."""
        first = int(np.searchsorted(self.offsets, start, side="right")) - 1
        last = int(np.searchsorted(self.offsets, stop, side="left"))
        sizes = np.diff(np.clip(self.offsets[first : last + 1], start, stop))
        return self.described(self.read(start, stop), np.repeat(np.arange(first, last), sizes))

    def empty_mel(self, count: int) -> Float16[Tensor, "B U M T"]:
        """Memory for the mel of a batch."""
        return torch.empty((count, *self.shape), dtype=torch.float16, pin_memory=self.pins)

    def batch_bytes(self, count: int) -> int:
        """Bytes of a batch of so many samples."""
        mel = math.prod(self.shape) * torch.float16.itemsize
        return count * (mel + torch.float32.itemsize + 2 * torch.int64.itemsize)

    def described(self, mel: Float16[Tensor, "B U M T"], recording: Int[np.ndarray, " B"]) -> Batch:
        """The batch of samples whose mel and recordings these are."""
        rows = torch.from_numpy(recording)
        classes = torch.from_numpy(self.class_of_recording)
        weights = torch.from_numpy(self.weight_of_recording)
        return Batch(
            mel, take_rows(classes, rows, self.pins), take_rows(weights, rows, self.pins), rows
        )

    def __getstate__(self) -> dict[str, object]:
        fields = ("split", "class_of_recording", "unit", "for_accelerator")
        return {name: self.__dict__[name] for name in fields}
