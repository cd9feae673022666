"""What Lightning iterates over. Both loaders shard by rank themselves, exactly: Lightning's samplers stay out of it."""

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np

from leakdet.errors import InputError, SettingsError
from leakdet.loading.in_memory import ResidentSamples
from leakdet.loading.samples import Batch, SplitSamples

EVAL_WINDOWS = 2048  # windows in a validation batch: changes memory, never a number


@runtime_checkable
class Epochs(Protocol):
    """Where batches come from: memory or files. `bounds` [batches + 1] cuts an epoch's draws, of all ranks, into batches;
    epochs of the same `order` (and seed and number) hold the same samples at the same place.
    """

    bounds: np.ndarray
    order: str

    def __len__(self) -> int: ...

    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]: ...


class TrainLoader:
    """One epoch of batches in an order that depends on (seed, epoch) alone; Lightning treats it as a DataLoader.

    It is its own sampler, so that Lightning tells it the epoch, and has a state, so that a resumed run goes on with the samples
    that the interrupted epoch had not seen. Rank r takes every world-th sample of each batch: the effective batch is
    `batch_size` on any number of processes.
    """

    def __init__(self, epochs: Epochs) -> None:
        self.epochs = epochs
        self.epoch = self.position = 0
        self._resume_at = 0
        self.sampler = self

    def set_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch, self.position, self._resume_at = epoch, 0, 0

    def __len__(self) -> int:
        return len(self.epochs)

    def batch_sizes(self) -> np.ndarray:
        """Samples of all processes in each batch of an epoch, int64 [batches]."""
        return np.diff(self.epochs.bounds)

    def __iter__(self) -> Iterator[Batch]:
        start, self._resume_at = self._resume_at % len(self), 0
        for number, batch in enumerate(self.epochs.batches(self.epoch, start), start):
            self.position = number + 1
            yield batch

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "position": self.position, "order": self.epochs.order}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises `SettingsError` in the middle of an epoch of another order: what it has not seen could not be told."""
        there = state.get("order", self.epochs.order)
        if there != self.epochs.order and state["position"] % len(self):
            raise SettingsError(
                f"The interrupted epoch had its samples {there}, now they are {self.epochs.order}: which of them it has not "
                "seen cannot be told. Resume with the data.residency and the number of processes of then, or begin a new "
                "training from its weights with init_from."
            )
        self.epoch, self.position = state["epoch"], state["position"]
        self._resume_at = self.position


class EvalLoader:
    """Every recording of this rank's share once, windows in order, so that no recording is counted twice on several ranks.

    All ranks have the same number of batches: a network with buffers synchronises them at each one, and a rank without would
    leave the others waiting for ever.

    Raises:
        InputError: there are fewer recordings than processes.
    """

    def __init__(
        self, samples: SplitSamples, resident: ResidentSamples | None, rank: int = 0, world: int = 1
    ) -> None:
        self.samples, self.resident = samples, resident
        shares = recording_shares(np.diff(samples.split.recording_offsets), world)
        if (np.diff(shares) < 1).any():
            raise InputError(
                f"{samples.split.files[0].parent}: {samples.split.name} has {samples.split.recordings} recordings for {world} "
                "processes; each needs one. Use fewer trainer.devices."
            )
        windows = np.diff(samples.split.recording_offsets[shares])
        batches = min(-(-int(windows.max()) // EVAL_WINDOWS), int(windows.min()))
        start = int(samples.split.recording_offsets[shares[rank]])
        self.bounds = (
            start + np.arange(batches + 1) * int(windows[rank]) // batches
        ) * samples.per_window

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __iter__(self) -> Iterator[Batch]:
        for start, stop in zip(self.bounds[:-1].tolist(), self.bounds[1:].tolist(), strict=True):
            if self.resident is not None:
                yield self.resident.cut(start, stop)
            else:
                yield self.samples.batch(start, stop)


def recording_shares(windows: np.ndarray, world: int) -> np.ndarray:
    """First recording of each rank, and their number, int64 [world + 1]: whole recordings, windows shared out evenly.

    Every rank has one recording at least, where there are as many.
    """
    starts = np.concatenate([[0], np.cumsum(windows)])
    shares = np.searchsorted(starts, np.arange(world + 1) * starts[-1] / world, side="left")
    shares[0], shares[-1] = 0, len(windows)
    for rank in range(1, world):
        shares[rank] = max(shares[rank], shares[rank - 1] + 1)
    for rank in range(world - 1, 0, -1):
        shares[rank] = min(shares[rank], shares[rank + 1] - 1)
    return np.asarray(np.maximum(shares, 0))
