"""A split that does not fit in memory: chunks of whole recordings in shuffled order, through two buffers, exactly once.

An epoch is a sequence of draws: chunk after chunk in a shuffled order, in each chunk the samples that the sampling draws.
Each worker of each rank takes a consecutive part of it, cut to the sample: every rank has as many batches as `ram` has, of the
same sizes. A process derives its part from (seed, epoch) alone. Memory is two buffers and a few numbers per recording.

Nothing here imports Lightning: worker processes start with this module.
"""

import itertools
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from leakdet.config import DataConfig
from leakdet.training.blocks import Block, BlockReader
from leakdet.training.draws import Draws
from leakdet.training.samples import Batch, SplitSamples, at_once, divided
from leakdet.training.sampling import batch_bounds, epoch_draws, share_sizes


class StreamEpochs(IterableDataset[Batch]):
    """The batches of one rank, read from the files. With `workers` each worker process reads every workers-th batch."""

    def __init__(
        self, samples: SplitSamples, data: DataConfig, seed: int, rank: int = 0, world: int = 1
    ) -> None:
        self.samples, self.data, self.seed = samples, data, seed
        self.rank, self.world = rank, world
        # in shared memory, because workers that persist never see the loader's own attributes again
        self._epoch: Tensor = torch.zeros(2, dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]
        self._reader = BlockReader(samples, data, seed)
        draws = epoch_draws(samples.class_counts(), data.sampling, 0, data.curriculum_epochs)
        self.bounds = batch_bounds(int(draws.sum()), data.batch_size, world)
        self.order = f"streamed (data.residency=stream) by {world} processes"
        self._loader: DataLoader[Batch] | None = None

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_loader": None}

    # ------------------------------------------------------------------------------------------ in the training process

    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Batches `start`, start + 1, … of the epoch."""
        self._epoch[0], self._epoch[1] = epoch, start
        if self.data.workers == 0:
            return iter(self)
        if self._loader is None:
            self._loader = DataLoader(
                self,
                batch_size=None,
                num_workers=self.data.workers,
                persistent_workers=True,
                multiprocessing_context=self.data.worker_start,
                pin_memory=self.samples.for_accelerator,
            )
        return iter(self._loader)

    # ------------------------------------------------------------------------------------------ in the reading process

    def __iter__(self) -> Iterator[Batch]:
        epoch, start = self._epoch.tolist()
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        draws = Draws(self.samples, self.data, self.seed, epoch)
        sizes = [share_sizes(self.bounds, rank, self.world) for rank in range(self.world)]
        shards = [size[other::workers] for size in sizes for other in range(workers)]
        shard = self.rank * workers + worker
        low = sum(int(shards[before].sum()) for before in range(shard))
        blocks = self._reader.blocks(draws, epoch, low, low + int(shards[shard].sum()))
        done = len(range(worker, start, workers))
        # A worker sends each batch to another process: one that shares its memory with others would send them all.
        together = 1 if info else at_once(self.samples, self.data.batch_size)
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
