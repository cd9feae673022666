"""Windows of a store as batches: a batch is gathered at once, never sample by sample, and needs no worker process."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import lightning.pytorch as pl
import numpy as np
import torch
from torch import Tensor

from leakdet.config import TrainConfig
from leakdet.detection.detector import as_samples, sample_shape
from leakdet.detection.labels import LabelMap
from leakdet.errors import InputError
from leakdet.storage.opening import leak_label_of, open_any_split, splits_there
from leakdet.storage.store import StoreSplit
from leakdet.training.sampling import batch_bounds, drawn_mix, epoch_order

EVAL_WINDOWS = 2048  # windows in a validation batch: changes memory, never a number


class Batch(NamedTuple):
    """mel [B, S, M, T] float16; class_id, weight and recording [B]: true class, training weight, row of the recording."""

    mel: Tensor
    class_id: Tensor
    weight: Tensor
    recording: Tensor


@dataclass
class Samples:
    """A split in memory, one row per sample of the network."""

    mel: Tensor  # [N, S, M, T] float16
    class_id: np.ndarray  # int64 [N]
    weight: Tensor  # float32 [N]
    recording: Tensor  # int64 [N]

    @classmethod
    def of(cls, split: StoreSplit, class_of_recording: np.ndarray, unit: str) -> "Samples":
        windows = torch.from_numpy(np.array(split.mel.rows(0, split.windows)))
        per_window = split.mel.shape[1] if unit == "segment" else 1
        recording = np.repeat(np.arange(split.recordings), split.windows_per_recording * per_window)
        weight = split.numbers("weight", default=1.0).astype(np.float32)
        return cls(
            mel=as_samples(windows, unit),
            class_id=class_of_recording[recording],
            weight=torch.from_numpy(weight[recording]),
            recording=torch.from_numpy(recording),
        )

    def batch(self, index: Tensor) -> Batch:
        class_id = torch.from_numpy(self.class_id)
        return Batch(
            self.mel.index_select(0, index), class_id[index], self.weight[index], self.recording[index]
        )


class TrainLoader:
    """One epoch of batches in an order that depends on (seed, epoch) alone; Lightning treats it as a DataLoader.

    It is its own sampler, so that Lightning tells it the epoch, and has a state, so that a resumed run goes on with the samples
    that the interrupted epoch had not seen. Rank r takes every world-th sample of each batch: the effective batch is
    `batch_size` on any number of processes.
    """

    def __init__(self, samples: Samples, config: TrainConfig, rank: int = 0, world: int = 1) -> None:
        self.samples, self.config = samples, config
        self.rank, self.world = rank, world
        self.epoch = self.position = 0
        self.sampler = self

    def set_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch, self.position = epoch, 0

    def _order(self) -> np.ndarray:
        data = self.config.data
        return epoch_order(
            self.samples.class_id, data.sampling, self.config.seed, self.epoch, data.curriculum_epochs
        )

    def __len__(self) -> int:
        return -(-len(self._order_length()) // self.config.data.batch_size)

    def _order_length(self) -> range:
        if self.config.data.sampling != "oversampled":
            return range(len(self.samples.class_id))
        counts = np.bincount(self.samples.class_id)
        return range(int(counts.max()) * int((counts > 0).sum()))

    def batch_sizes(self) -> np.ndarray:
        """Samples of all processes in each batch of an epoch, int64 [batches]."""
        return np.diff(batch_bounds(len(self._order_length()), self.config.data.batch_size))

    def __iter__(self) -> Iterator[Batch]:
        order = torch.from_numpy(self._order())
        bounds = batch_bounds(len(order), self.config.data.batch_size)
        if self.position >= len(bounds) - 1:
            self.position = 0
        for number in range(self.position, len(bounds) - 1):
            self.position = number + 1
            yield self.samples.batch(order[bounds[number] + self.rank : bounds[number + 1] : self.world])

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.epoch, self.position = state["epoch"], state["position"]


class EvalLoader:
    """Every recording of this rank's share once, windows in order, so that no recording is counted twice on several ranks."""

    def __init__(self, samples: Samples, recordings: int, rank: int = 0, world: int = 1) -> None:
        self.samples = samples
        bounds = np.arange(world + 1) * recordings // world
        low, high = np.searchsorted(samples.recording.numpy(), bounds[rank : rank + 2])
        per_batch = EVAL_WINDOWS
        self.pieces = [
            (start, min(start + per_batch, int(high))) for start in range(int(low), int(high), per_batch)
        ]

    def __len__(self) -> int:
        return len(self.pieces)

    def __iter__(self) -> Iterator[Batch]:
        class_id = torch.from_numpy(self.samples.class_id)
        for start, stop in self.pieces:
            cut = slice(start, stop)
            yield Batch(
                self.samples.mel[cut], class_id[cut], self.samples.weight[cut], self.samples.recording[cut]
            )


class LeakDataModule(pl.LightningDataModule):
    """The train and val splits of a store under a label view.

    Raises:
        InputError: a split is missing, has no leak or nothing but leaks, or the splits disagree on signal or vocabulary.
    """

    def __init__(self, config: TrainConfig, store: Path) -> None:
        super().__init__()
        self.config, self.store = config, store
        self.resumed_at: dict[str, int] | None = None  # the loader's state in the run that is gone on with
        self.train_split, self.val_split = self._open("train"), self._open("val")
        self._check_agreement()
        self.leak_label = leak_label_of(self.train_split, config.labels.leak)
        self.labels = LabelMap.of_store(self.train_split.label_names, self.leak_label, config.labels.mode)
        self.mel_shape: tuple[int, int, int] = self.train_split.mel.shape[1:]
        self.sample_shape = sample_shape(self.mel_shape, config.data.unit)
        self.train_samples = self._samples(self.train_split)
        self.val_samples = self._samples(self.val_split)

    def __deepcopy__(self, memo: dict[int, Any]) -> "LeakDataModule":
        return self  # a copy of a network, as for averaged weights, is trained on the same recordings

    def _open(self, name: str) -> StoreSplit:
        there = splits_there(self.store) if self.store.is_dir() else []
        if self.store.is_dir() and name not in there:
            raise InputError(
                f"{self.store}: training needs a {name} split; the store has {there or 'none'}. "
                "Build it with three shares in split.ratios, or with a split column."
            )
        return open_any_split(self.store, name)

    def _check_agreement(self) -> None:
        train, val = self.train_split, self.val_split
        if [n.casefold() for n in train.label_names] != [n.casefold() for n in val.label_names]:
            raise InputError(
                f"{self.store}: train has the labels {train.label_names}, val {val.label_names}."
            )
        if train.signal != val.signal or train.mel.shape[1:] != val.mel.shape[1:]:
            raise InputError(
                f"{self.store}: train and val were built with different signal settings; build them together."
            )

    def _samples(self, split: StoreSplit) -> Samples:
        class_of_label = np.array(
            self.labels.class_ids(split.label_names, leak_label_of(split, self.leak_label), str(self.store))
        )
        class_of_recording = class_of_label[split.label_id]
        leaks = int((class_of_recording == self.labels.leak_index).sum())
        if not 0 < leaks < split.recordings:
            raise InputError(
                f"{self.store}: {split.name} has {leaks} leaks among {split.recordings} recordings ({self.leak_label} is the "
                "leak); both kinds are needed. Name the leak class with labels.leak=, or build with other split.ratios."
            )
        if self.config.data.shuffle_labels:
            class_of_recording = np.random.default_rng(self.config.seed).permutation(class_of_recording)
        return Samples.of(split, class_of_recording, self.config.data.unit)

    @property
    def val_is_leak(self) -> np.ndarray:
        """Truth of the validation recordings as this run sees it, bool [R]: shuffled in a null test."""
        first = np.searchsorted(self.val_samples.recording.numpy(), np.arange(self.val_split.recordings))
        return np.asarray(self.val_samples.class_id[first] == self.labels.leak_index)

    @property
    def train_mix(self) -> np.ndarray:
        """Share of each class among the samples that the sampler draws, float64 [classes]."""
        return drawn_mix(self.train_samples.class_id, len(self.labels.names), self.config.data.sampling)

    def standardisation_batches(self, most: int = 20_000) -> Iterator[Tensor]:
        """Training samples spread evenly over the split, for the input layer's per-band mean and deviation."""
        count = len(self.train_samples.class_id)
        index = torch.arange(0, count, max(1, count // most))
        for piece in torch.split(index, EVAL_WINDOWS):
            yield self.train_samples.mel.index_select(0, piece)

    def _place(self) -> dict[str, int]:
        return {"rank": self.trainer.global_rank, "world": self.trainer.world_size} if self.trainer else {}

    def train_dataloader(self) -> Any:
        loader = TrainLoader(self.train_samples, self.config, **self._place())
        if self.resumed_at is not None:  # Lightning restores a loader's state in some of its restarts only
            loader.load_state_dict(self.resumed_at)
            self.resumed_at = None
        return loader

    def val_dataloader(self) -> Any:
        return EvalLoader(self.val_samples, self.val_split.recordings, **self._place())
