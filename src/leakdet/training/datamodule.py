"""The train and val splits of a store, checked, placed and turned into loaders."""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from torch import Tensor

from leakdet.config import TrainConfig
from leakdet.detection.detector import sample_shape
from leakdet.detection.labels import LabelMap
from leakdet.errors import InputError, SettingsError
from leakdet.loading.eval_loader import EvalLoader
from leakdet.loading.in_memory import InMemoryLoader, InMemorySamples
from leakdet.loading.placement import choose_residency, uses_cuda
from leakdet.loading.samples import Batch, SplitSamples
from leakdet.loading.sampling import drawn_mix
from leakdet.loading.streaming import StreamLoader
from leakdet.loading.train_loader import TrainLoader
from leakdet.storage.integrity import (
    check_apart,
    check_contents,
    check_no_copies,
    sounds_are_hashed,
)
from leakdet.storage.opening import leak_label_of, open_any_split, splits_there, with_surrogates
from leakdet.storage.store import StoreSplit

__all__ = ["Batch", "EvalLoader", "LeakDataModule", "TrainLoader"]

# samples that follow each other, where a few thousand stand for the whole split: a disk reads them at once
RUN = 64


class LeakDataModule(pl.LightningDataModule):
    """The train and val splits of a store under a label view, or two views of its recordings in their place.

    Raises:
        InputError: a split is missing, damaged, has no leak or nothing but leaks, or the splits disagree on signal or
            vocabulary or share a recording, a sound or a group, or a predecessor never read a recording.
    """

    def __init__(
        self,
        config: TrainConfig,
        store: Path,
        train_split: StoreSplit | None = None,
        val_split: StoreSplit | None = None,
        *,
        read: bool = True,
    ) -> None:
        """`read=False` leaves reading the windows to `read_in`, so that a caller can say before what will be read."""
        super().__init__()
        self.config, self.store = config, store
        # the loader's state in the run that is gone on with
        self.resumed_at: dict[str, int] | None = None
        # surrogates: rows at the end of train that were made, not recorded
        opened = (train_split, 0) if train_split else with_surrogates(self._open("train"), store)
        self.train_split, self.surrogates = opened
        self.val_split = val_split or self._open("val")
        self._check_agreement(self.val_split)
        # Who hands over parts of a store, as a fold is, divides them by rules of its own.
        self._whole_store = train_split is None
        self.test_split: StoreSplit | None = None
        if self._whole_store:
            self._check_whole_store()
        self.leak_label = leak_label_of(self.train_split, config.labels.leak)
        self.labels = LabelMap.of_store(
            self.train_split.label_names, self.leak_label, config.labels.mode
        )
        self.mel_shape: tuple[int, int, int] = self.train_split.mel.shape[1:]
        self.sample_shape = sample_shape(self.mel_shape, config.data.unit)
        self.train_samples = self._samples(self.train_split)
        self.val_samples = self._samples(self.val_split)
        size = self.train_split.mel.nbytes + self.val_split.mel.nbytes
        self.residency = choose_residency(config.data.residency, size, config.trainer)
        self._memory: dict[str, InMemorySamples] = {}
        if read:
            self.read_in()

    def __deepcopy__(self, memo: dict[int, Any]) -> "LeakDataModule":
        # a copy of a network, as for averaged weights, is trained on the same recordings
        return self

    @property
    def _splits(self) -> list[StoreSplit]:
        return [self.train_split, self.val_split, *([self.test_split] if self.test_split else [])]

    def read_in(self, test: bool = False) -> None:
        """A damaged file is found now, not after an epoch. What is streamed for training is checked while epoch 0 reads it,
        but where only the mel can tell whether a recording lies in another split too. `test`: that split will be scored.
        """
        by_mel = self._whole_store and not sounds_are_hashed(self._splits)
        samples = [self.train_samples, self.val_samples]
        if self.residency.kind != "stream":
            read = [(each.split, self._in_memory(each).checksums) for each in samples]
        else:
            read = [
                (each.split, check_contents(each.split)) for each in samples[0 if by_mel else 1 :]
            ]
        if test and self.test_split:
            read.append((self.test_split, check_contents(self.test_split)))
        if by_mel:
            check_no_copies(read)

    def _open(self, name: str) -> StoreSplit:
        there = splits_there(self.store) if self.store.is_dir() else []
        if self.store.is_dir() and name not in there:
            raise InputError(
                f"{self.store}: training needs a {name} split; the store has {there or 'none'}. "
                "Build it with three shares in split.ratios, or with a split column."
            )
        return open_any_split(self.store, name)

    def _check_agreement(self, other: StoreSplit) -> None:
        train = self.train_split
        if [n.casefold() for n in train.label_names] != [n.casefold() for n in other.label_names]:
            raise InputError(
                f"{self.store}: {train.files[0].name} has the labels {train.label_names}, {other.files[0].name} "
                f"{other.label_names}. Build both with the same vocabulary."
            )
        if train.signal != other.signal or train.mel.shape[1:] != other.mel.shape[1:]:
            differing = (
                train.signal.differences(other.signal) if train.signal and other.signal else []
            )
            shapes = f"windows of {train.mel.shape[1:]} and {other.mel.shape[1:]}"
            raise InputError(
                f"{self.store}: {train.files[0].name} and {other.files[0].name} were built with different signal settings "
                f"({'; '.join(differing) or shapes}). Build them together."
            )

    def _check_whole_store(self) -> None:
        """What training never reads is looked at as well: better now than when the night is over."""
        if "test" in splits_there(self.store):
            self.test_split = self._open("test")
            self._check_agreement(self.test_split)
        check_apart(self._splits)

    def _samples(self, split: StoreSplit) -> SplitSamples:
        class_of_label = np.array(
            self.labels.class_ids(
                split.label_names, leak_label_of(split, self.leak_label), str(self.store)
            )
        )
        class_of_recording = class_of_label[split.label_id]
        leaks = int((class_of_recording == self.labels.leak_index).sum())
        if not 0 < leaks < split.recordings:
            raise InputError(
                f"{self.store}: {split.name} has {leaks} leaks among {split.recordings} recordings ({self.leak_label} is the "
                "leak); both kinds are needed. Name the leak class with labels.leak=, or build with other split.ratios."
            )
        if self.config.data.shuffle_labels:
            class_of_recording = np.random.default_rng(self.config.seed).permutation(
                class_of_recording
            )
        return SplitSamples(
            split,
            class_of_recording,
            self.config.data.unit,
            for_accelerator=uses_cuda(self.config.trainer),
        )

    # ------------------------------------------------------------------------------------------ what a run asks

    @property
    def val_is_leak(self) -> np.ndarray:
        """Truth of the validation recordings as this run sees it, bool [R]: shuffled in a null test."""
        return np.asarray(self.val_samples.class_of_recording == self.labels.leak_index)

    @cached_property
    def train_counts(self) -> np.ndarray:
        """Training samples of each class, int64 [classes]."""
        return self.train_samples.class_counts(len(self.labels.names))

    @property
    def train_weights(self) -> np.ndarray:
        """Mean weight that the manifest gives the training samples of each class, float64 [classes]."""
        return self.train_samples.mean_weights(len(self.labels.names))

    @property
    def train_mix(self) -> np.ndarray:
        """Share of each class among the samples that the sampler draws, float64 [classes]; a curriculum's later epochs."""
        return self.mix_of_epoch(self.config.data.curriculum_epochs)

    def mix_of_epoch(self, epoch: int) -> np.ndarray:
        """Share of each class among the samples that this epoch draws, float64 [classes]: it moves under a curriculum."""
        return drawn_mix(self.train_counts, self.config.data, epoch)

    def standardisation_batches(self, most: int = 20_000) -> Iterator[Tensor]:
        """Training samples spread evenly over the split, for the input layer's per-band mean and deviation."""
        count = len(self.train_samples)
        starts = np.arange(0, count, RUN)
        for start in starts[:: max(1, count // most)].tolist():
            stop = min(start + RUN, count)
            memory = self._memory.get("train")
            yield memory.mel[start:stop] if memory else self.train_samples.read(start, stop)

    # ------------------------------------------------------------------------------------------ loaders

    def _in_memory(self, samples: SplitSamples) -> InMemorySamples:
        """The samples where the residency wants them; moved to the accelerator once training knows which it is."""
        device = torch.device("cpu")
        if self.residency.kind == "device" and self.trainer:
            device = self.trainer.strategy.root_device
        memory = self._memory.get(samples.split.name)
        if memory is None:
            memory = self._memory[samples.split.name] = InMemorySamples(samples)
        return memory.to(device)

    def _place(self) -> tuple[int, int]:
        return (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)

    def train_loader(self, rank: int = 0, world: int = 1) -> TrainLoader:
        """The batches of every epoch, from where the residency keeps the samples."""
        samples, data, seed = self.train_samples, self.config.data, self.config.seed
        if len(samples) < world:
            raise InputError(
                f"{self.store}: train has {len(samples)} samples for {world} processes."
            )
        if self.residency.kind == "stream":
            return StreamLoader(samples, data, seed, rank, world)
        return InMemoryLoader(self._in_memory(samples), data, seed, rank, world)

    def _require_agreement_of_processes(self) -> None:
        """On several machines each chooses for itself; epochs in memory and streamed ones are divided differently."""
        trainer = self.trainer
        if trainer is None or trainer.world_size == 1:
            return
        streams = torch.tensor(
            float(self.residency.kind == "stream"), device=trainer.strategy.root_device
        )
        everywhere: Tensor = trainer.strategy.all_gather(streams)
        if bool((everywhere != streams).any()):
            raise SettingsError(
                "data.residency=auto: the windows fit into the memory of some machines only. Say data.residency=stream."
            )

    def train_dataloader(self) -> Any:
        self._require_agreement_of_processes()
        loader = self.train_loader(*self._place())
        # Lightning restores a loader's state in some of its restarts only
        if self.resumed_at is not None:
            loader.load_state_dict(self.resumed_at)
            self.resumed_at = None
        return loader

    def val_dataloader(self) -> Any:
        memory = None if self.residency.kind == "stream" else self._in_memory(self.val_samples)
        return EvalLoader(self.val_samples, memory, *self._place())
