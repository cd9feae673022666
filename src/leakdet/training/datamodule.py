"""The splits of a store as the batches that Lightning trains and validates on."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from torch import Tensor

from leakdet.config import TrainConfig
from leakdet.core.errors import InputError, SettingsError
from leakdet.detection.detector import sample_shape
from leakdet.detection.labels import LabelMap
from leakdet.loading.loaders import EvalLoader, InMemoryLoader, InMemorySamples, TrainLoader
from leakdet.loading.memory import Residency, choose_residency, require_shared_memory, uses_cuda
from leakdet.loading.order import drawn_mix
from leakdet.loading.samples import SplitSamples
from leakdet.loading.stream import StreamLoader
from leakdet.storage.integrity import check_contents
from leakdet.storage.overlap import check_no_copies, sounds_are_hashed
from leakdet.storage.store import StoreSplit
from leakdet.storage.views import view_of
from leakdet.training.settings import resolved
from leakdet.training.sounds import (
    FolderSounds,
    check_negatives,
    folder_of_negatives,
    read_sound_folder,
    why_not_synthetic,
)
from leakdet.training.splits import (
    Splits,
    StartedFrom,
    open_splits,
    parts_of_store,
    started_from,
)

# consecutive samples that are read together, in one disk access, to fit the input layer
RUN = 64


class LeakDataModule(pl.LightningDataModule):
    """The train and val splits of a store under a label view, or two views of its recordings.

    `setup` opens the store and comes before everything else; `read_windows` reads its windows.
    `given` are the settings as they were given, `config` those that apply to these recordings.
    """

    config: TrainConfig
    start: StartedFrom | None  # the model that the training starts from
    splits: Splits
    labels: LabelMap
    mel_shape: tuple[int, int, int]
    sample_shape: tuple[int, int, int]
    train_samples: SplitSamples
    val_samples: SplitSamples
    residency: Residency

    def __init__(
        self,
        config: TrainConfig,
        store: Path,
        train_split: StoreSplit | None = None,
        val_split: StoreSplit | None = None,
    ) -> None:
        super().__init__()
        self.given, self.store = config.plain(), store
        self._parts = (train_split, val_split)
        self._is_set_up = False
        self._loader: TrainLoader | None = None  # the latest one for training
        self._loader_state: dict[str, Any] | None = None  # where the next one begins
        self._memory: dict[str, InMemorySamples] = {}
        self._checksums: dict[str, np.ndarray] = {}

    def setup(self, stage: str | None = None) -> None:
        """Open the splits, check them against each other and choose where windows are kept.

        Lightning calls it again for each stage; only the first call does anything.
        """
        if self._is_set_up:
            return
        config, (train, val) = self.given, self._parts
        if train is None or val is None:
            self.splits = open_splits(self.store, config.labels)
        else:
            self.splits = parts_of_store(self.store, train, val)
        train = self.splits.train
        self.labels = LabelMap.of_view(view_of(train), config.labels.mode)
        self.mel_shape = train.mel.shape[1:]
        self.sample_shape = sample_shape(self.mel_shape, config.data.unit)
        self.train_samples = self._samples(train)
        self.val_samples = self._samples(self.splits.val)
        self.residency = choose_residency(config.data.residency, self.mel_bytes, config.trainer)
        self.config = resolved(config, self.splits.val.recordings, len(self.train_samples))
        if why_not_synthetic(config, train):
            self.config = replace(self.config, data=replace(self.config.data, negatives=None))
        self.start = started_from(config)
        self._is_set_up = True

    def read_windows(self, test: bool = False) -> None:
        """Read windows into memory and check them, so that damage is found before epoch 0.

        What is streamed for training is checked while epoch 0 reads it, unless only the mel can
        tell whether a recording lies in another split too. `test`: that split will be scored.
        """
        self._require_room()
        by_mel = self.splits.of_whole_store and not sounds_are_hashed(self.splits.all)
        wanted: list[StoreSplit] = [self.splits.val]
        if by_mel or not self.streams:
            wanted.insert(0, self.splits.train)
        if test and self.splits.test:
            wanted.append(self.splits.test)
        for split in wanted:
            if split.name not in self._checksums:
                self._checksums[split.name] = self._read(split)
        if by_mel:
            check_no_copies([(split, self._checksums[split.name]) for split in wanted])

    def _require_room(self) -> None:
        if self.streams and self.config.data.batch_size:
            require_shared_memory(self.train_samples, self.config.data)

    def _read(self, split: StoreSplit) -> np.ndarray:
        for samples in (self.train_samples, self.val_samples):
            if samples.split is split and not self.streams:
                return self._in_memory(samples).checksums
        return check_contents(split)

    def train_dataloader(self) -> TrainLoader:
        self._require_agreement_of_processes()
        self._loader = self.train_loader(*self._rank_and_world())
        # Lightning restores a loader's state in some of its restarts only
        if self._loader_state is not None:
            self._loader.load_state_dict(self._loader_state)
            self._loader_state = None
        return self._loader

    def val_dataloader(self) -> EvalLoader:
        memory = None if self.streams else self._in_memory(self.val_samples)
        return EvalLoader(self.val_samples, memory, *self._rank_and_world())

    def test_dataloader(self) -> EvalLoader:
        """The test split for `Trainer.test`, read from its files."""
        return EvalLoader(self.test_samples, None, *self._rank_and_world())

    def train_loader(self, rank: int = 0, world: int = 1) -> TrainLoader:
        """The batches of every epoch, from where the samples are kept."""
        samples, data, seed = self.train_samples, self.config.data, self.config.seed
        if len(samples) < world:
            raise InputError(
                f"{self.store}: train has {len(samples)} samples for {world} processes."
            )
        if self.streams:
            return StreamLoader(samples, data, seed, rank, world)
        return InMemoryLoader(self._in_memory(samples), data, seed, rank, world)

    def with_settings(self, config: TrainConfig) -> "LeakDataModule":
        """The same open data and read windows, under settings that were chosen since `setup`."""
        data = copy.copy(self)
        data.config = config
        data._require_room()
        return data

    def state_dict(self) -> dict[str, Any]:
        """Where the training loader is, and what the model has met that the training began with."""
        return {
            "loader": self._loader.state_dict() if self._loader else None,
            "start": self.start.state() if self.start else None,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Let the next training loader continue where that of `state_dict` was."""
        self._loader_state, start = state_dict["loader"], state_dict["start"]
        self.start = StartedFrom.from_state(start) if start else None

    def __deepcopy__(self, memo: dict[int, Any]) -> "LeakDataModule":
        # a copy of the module, as for averaged weights, is trained on the same recordings
        return self

    # ------------------------------------------------------------------------ facts about a run

    @property
    def streams(self) -> bool:
        """True if batches are read from the files throughout."""
        return self.residency.kind == "stream"

    @property
    def mel_bytes(self) -> int:
        """Memory that the windows of both splits take."""
        return self.splits.train.mel.nbytes + self.splits.val.mel.nbytes

    @property
    def val_is_leak(self) -> np.ndarray:
        """Truth of the validation recordings in this run, bool [R]; shuffled in a null test."""
        return np.isin(self.val_samples.class_of_recording, self.labels.leaks)

    @cached_property
    def test_samples(self) -> SplitSamples:
        """The samples of the test split. Raises `InputError` where the store has none."""
        if self.splits.test is None:
            raise InputError(f"{self.store}: it has no test split.")
        return self._samples(self.splits.test)

    @property
    def test_is_leak(self) -> np.ndarray:
        """Truth of the test recordings, bool [R]."""
        return np.isin(self.test_samples.class_of_recording, self.labels.leaks)

    @cached_property
    def train_counts(self) -> np.ndarray:
        """Training samples of each class, int64 [classes]."""
        return self.train_samples.class_counts(len(self.labels.names))

    @property
    def train_weights(self) -> np.ndarray:
        """Mean weight of the training samples of each class in the manifest, float64 [classes]."""
        return self.train_samples.mean_weights(len(self.labels.names))

    @property
    def train_mix(self) -> np.ndarray:
        """Share of each class among the samples drawn, float64 [classes]; a curriculum's final."""
        return self.mix_of_epoch(self.config.data.curriculum_epochs)

    def mix_of_epoch(self, epoch: int) -> np.ndarray:
        """Share of each class among the samples that this epoch draws, float64 [classes]."""
        return drawn_mix(self.train_counts, self.config.data, epoch)

    @cached_property
    def negatives(self) -> FolderSounds | None:
        """The sounds of `data.negatives`, read and checked once; None where there are none."""
        data, train = self.config.data, self.splits.train
        if data.negatives is None:
            return None
        folder = folder_of_negatives(self.config, train)
        sounds = read_sound_folder("data.negatives", folder, train, data.unit)
        return check_negatives(str(folder), sounds, self.labels, self.store)

    def standardisation_batches(self, most: int = 20_000) -> Iterator[Tensor]:
        """Training samples spread evenly over the split, to fit the input layer on."""
        count = len(self.train_samples)
        for start in range(0, count, RUN * max(1, count // most)):
            stop = min(start + RUN, count)
            memory = self._memory.get("train")
            yield memory.mel[start:stop] if memory else self.train_samples.read(start, stop)

    # ------------------------------------------------------------------------ samples and ranks

    def _samples(self, split: StoreSplit) -> SplitSamples:
        classes = self.labels.class_ids(view_of(split), str(self.store))
        class_of_recording = np.array(classes)[split.label_id]
        leaks = int(np.isin(class_of_recording, self.labels.leaks).sum())
        if not 0 < leaks < split.recordings:
            raise InputError(
                f"{self.store}: {split.name} has {leaks} leaks among {split.recordings} recordings "
                f"({view_of(split).sentence()}); both kinds are needed. Name the leak labels with "
                "labels.leak=, or build with other split.ratios."
            )
        if self.given.data.shuffle_labels:
            rng = np.random.default_rng(self.given.seed)
            class_of_recording = rng.permutation(class_of_recording)
        unit, cuda = self.given.data.unit, uses_cuda(self.given.trainer)
        return SplitSamples(split, class_of_recording, unit, for_accelerator=cuda)

    def _in_memory(self, samples: SplitSamples) -> InMemorySamples:
        """Samples in memory; on the accelerator once training knows which one, if wanted there."""
        device = torch.device("cpu")
        if self.residency.kind == "device" and self.trainer:
            device = self.trainer.strategy.root_device
        name = samples.split.name
        if name not in self._memory:
            self._memory[name] = InMemorySamples(samples)
        return self._memory[name].to(device)

    def _rank_and_world(self) -> tuple[int, int]:
        return (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)

    def _require_agreement_of_processes(self) -> None:
        """Each machine chooses for itself, and streamed epochs are cut in another way."""
        trainer = self.trainer
        if trainer is None or trainer.world_size == 1:
            return
        streams = torch.tensor(float(self.streams), device=trainer.strategy.root_device)
        everywhere: Tensor = trainer.strategy.all_gather(streams)
        if bool((everywhere != streams).any()):
            raise SettingsError(
                "data.residency=auto: the windows fit into the memory of some machines only. Give "
                "data.residency=stream."
            )
