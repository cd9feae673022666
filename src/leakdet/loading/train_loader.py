"""Training batches as Lightning iterates over them: sharded by rank, resumable within an epoch."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Int

from leakdet.config import DataConfig
from leakdet.errors import SettingsError
from leakdet.loading.epoch_order import epoch_bounds
from leakdet.loading.samples import Batch, SplitSamples
from leakdet.loading.waiting import Wait, timed

# Raise it when (seed, epoch) gives another order: a checkpoint within an epoch is refused then.
ORDER_VERSION = 2


class TrainLoader(ABC):
    """The training batches of one rank, in an order that depends on (seed, epoch) alone.

    Lightning treats it as a DataLoader. It is its own sampler, so that Lightning sets the epoch,
    and has a state, so that a resumed run continues with the samples that the interrupted epoch had
    not seen. It shards by rank without padding: `data.batch_size` is of all ranks together, and all
    have the same number of batches.
    """

    order: str  # where the samples are: with the same seed, epoch and `order` they come alike

    def __init__(
        self, samples: SplitSamples, data: DataConfig, seed: int, rank: int = 0, world: int = 1
    ) -> None:
        self.samples, self.data, self.seed = samples, data, seed
        self.rank, self.world = rank, world
        self.bounds = epoch_bounds(samples.class_counts(), data, world)
        self.epoch = self.position = 0
        self._resume_at = 0
        self.sampler = self
        self.wait: Wait | None = None  # for the latest batch
        self._readers, self._starting = 1, False  # processes that make batches in turn

    @abstractmethod
    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Batches `start`, start + 1, … of the epoch."""

    def set_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch, self.position, self._resume_at = epoch, 0, 0

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def batch_sizes(self) -> Int[np.ndarray, " batches"]:
        """Samples in each batch of an epoch, of all ranks together."""
        return np.diff(self.bounds)

    def __iter__(self) -> Iterator[Batch]:
        start, self._resume_at = self._resume_at % len(self), 0
        starting, self._starting = self._starting, False
        batches = partial(self.batches, self.epoch, start)
        for batch, wait in timed(batches, start, self._readers, starting):
            self.wait, self.position = wait, wait.batch + 1
            yield batch

    def state_dict(self) -> dict[str, Any]:
        return {
            "epoch": self.epoch,
            "position": self.position,
            "order": self.order,
            "order_version": ORDER_VERSION,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state` was taken.

        Raises:
            SettingsError: it was taken within an epoch of another order, so that the samples that
                the epoch had not seen are unknown.
        """
        order, version = state.get("order", "of unknown order"), state.get("order_version", 1)
        if (order, version) != (self.order, ORDER_VERSION) and state["position"] % len(self):
            now = self.order if order != self.order else "shuffled by another version of leakdet"
            raise SettingsError(
                f"The checkpoint was written within an epoch whose samples were {order}; now they "
                f"are {now}. Which samples the epoch had not seen yet is unknown. Resume with the "
                "data.residency, the number of processes and the version of leakdet of that run, "
                "or start a new training from its weights with init_from."
            )
        self.epoch, self.position = state["epoch"], state["position"]
        self._resume_at = self.position
