"""A split that does not fit in memory: chunks of whole recordings in shuffled order, through two buffers, exactly once.

An epoch is a sequence of draws: chunk after chunk in a shuffled order, in each chunk the samples that the sampling draws.
Each worker of each rank takes a consecutive part of it, cut to the sample: every rank has as many batches as `ram` has, of the
same sizes. A process derives its part from (seed, epoch) alone. Memory is two buffers and a few numbers per recording.

Nothing here imports Lightning: worker processes start with this module.
"""

import itertools
import multiprocessing
import weakref
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from leakdet.config import DataConfig
from leakdet.loading.draws import Draws
from leakdet.loading.read_ahead import Block, BlockReader
from leakdet.loading.samples import Batch, SplitSamples, at_once, divided
from leakdet.loading.sampling import batch_bounds, epoch_draws, share_sizes

GATHER_BYTES = 4 << 20  # of mel gathered at once: beside the buffers, two of these are in memory


class StreamReader(IterableDataset[Batch]):
    """What one process reads of an epoch: a rank, or one of its worker processes, each every workers-th batch of the rank."""

    def __init__(
        self, samples: SplitSamples, data: DataConfig, seed: int, rank: int = 0, world: int = 1
    ) -> None:
        self.samples, self.data, self.seed = samples, data, seed
        self.rank, self.world = rank, world
        # in shared memory, because workers that persist never see the loader's own attributes again
        self._turn: Tensor = torch.zeros(2, dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]
        self._blocks = BlockReader(samples, data, seed)
        draws = epoch_draws(samples.class_counts(), data.sampling, 0, data.curriculum_epochs)
        self.bounds = batch_bounds(int(draws.sum()), data.batch_size, world)

    def turn_to(self, epoch: int, start: int = 0) -> None:
        """What is read next, by this process and by all workers that were given this reader: batches `start`, … of `epoch`."""
        self._turn[0], self._turn[1] = epoch, start

    def __iter__(self) -> Iterator[Batch]:
        epoch, start = self._turn.tolist()
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        draws = Draws(self.samples, self.data, self.seed, epoch)
        sizes = [share_sizes(self.bounds, rank, self.world) for rank in range(self.world)]
        shards = [size[other::workers] for size in sizes for other in range(workers)]
        shard = self.rank * workers + worker
        low = sum(int(shards[before].sum()) for before in range(shard))
        blocks = self._blocks.blocks(draws, epoch, low, low + int(shards[shard].sum()))
        done = len(range(worker, start, workers))
        # A worker sends each batch to another process: one that shares its memory with others would send them all.
        together = 1 if info else at_once(self.samples, self.data.batch_size, GATHER_BYTES)
        return itertools.islice(self._cut(blocks, shards[shard].tolist(), together), done, None)

    def _cut(self, blocks: Iterator[Block], sizes: list[int], together: int) -> Iterator[Batch]:
        """Batches of these sizes, `together` of them gathered as one. They may span blocks."""
        block: Block | None = None
        for first in range(0, len(sizes), together):
            several = sizes[first : first + together]
            mel, recording = self.samples.room(sum(several)), np.empty(sum(several), np.int64)
            done = 0
            while done < len(recording):
                if block is None or block.at == len(block.order):
                    block = next(blocks)
                done += block.fill(mel.numpy()[done:], recording[done:])
            yield from divided(self.samples.described(mel, recording), several)


class StreamEpochs:
    """The batches of every epoch of this rank, read from the files by this process or by `data.workers` others."""

    def __init__(
        self, samples: SplitSamples, data: DataConfig, seed: int, rank: int = 0, world: int = 1
    ) -> None:
        self.reader = StreamReader(samples, data, seed, rank, world)
        self.bounds = self.reader.bounds
        self.order = f"streamed (data.residency=stream) by {world} processes"
        self._loader = self._with_workers() if data.workers else None

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Batches `start`, start + 1, … of the epoch."""
        self.reader.turn_to(epoch, start)
        return iter(self.reader if self._loader is None else self._loader)

    def _with_workers(self) -> DataLoader[Batch]:
        """The loader starts its workers with the first epoch; they end with this object."""
        data = self.reader.data
        context = multiprocessing.get_context(data.worker_start)
        # it imports once what all workers need, and shares that memory
        if data.worker_start == "forkserver":
            context.set_forkserver_preload([__name__])
        loader = DataLoader(
            self.reader,
            batch_size=None,
            num_workers=data.workers,
            persistent_workers=True,
            multiprocessing_context=context,
            pin_memory=self.reader.samples.for_accelerator,
        )
        # Held here, the loader is no part of what the garbage collector finds in a circle, as it finds a trainer and its data:
        # there it closes the queues first, and then waits five seconds for each worker, which was never told to end.
        weakref.finalize(self, _let_go, loader)
        return loader


def _let_go(loader: DataLoader[Batch]) -> None:
    """The last reference to a loader ends here, and with it its workers."""
