"""The validation batches of one rank: whole recordings, each on one rank."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from jaxtyping import Int

from leakdet.errors import InputError
from leakdet.loading.in_memory import InMemorySamples
from leakdet.loading.samples import Batch, SplitSamples

WINDOWS = 2048  # in a batch: affects memory, never a number


class EvalLoader:
    """The recordings of this rank, windows in order. Every recording is on exactly one rank.

    All ranks have the same number of batches: a network with buffers synchronises them at each
    batch, and a rank without one would leave the others waiting for ever.

    Raises:
        InputError: there are fewer recordings than processes.
    """

    def __init__(
        self, samples: SplitSamples, memory: InMemorySamples | None, rank: int = 0, world: int = 1
    ) -> None:
        self._source = samples if memory is None else memory
        split = samples.split
        if split.recordings < world:
            raise InputError(
                f"{split.files[0].parent}: {split.name} has {split.recordings} recordings for "
                f"{world} processes; each needs one. Use fewer trainer.devices."
            )
        first = recording_shares(split.windows_per_recording, world)
        start_of_rank = split.recording_offsets[first]
        windows = np.diff(start_of_rank)
        batches = min(-(-int(windows.max()) // WINDOWS), int(windows.min()))
        within_rank = np.arange(batches + 1) * windows[rank] // batches
        self.bounds = (start_of_rank[rank] + within_rank) * samples.per_window

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __iter__(self) -> Iterator[Batch]:
        for start, stop in pairwise(self.bounds.tolist()):
            yield self._source.batch(start, stop)


def recording_shares(windows: Int[np.ndarray, " R"], world: int) -> Int[np.ndarray, " bounds"]:
    """First recording of each rank, then the number of recordings; windows are shared out evenly.

    Every rank gets at least one recording; there must be as many.
    """
    starts = np.concatenate([[0], np.cumsum(windows)])
    shares = np.searchsorted(starts, np.arange(world + 1) * starts[-1] / world)
    for rank in range(1, world):
        # at least one recording for this rank, and one for each rank after it
        least, most = shares[rank - 1] + 1, len(windows) - (world - rank)
        shares[rank] = min(max(shares[rank], least), most)
    shares[0], shares[-1] = 0, len(windows)
    return np.asarray(shares)
