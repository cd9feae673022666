"""Training batches from a split that does not fit in memory.

Each worker of each rank reads its part of the epoch block by block. While the samples of a block
are handed out in shuffled order, a thread reads the next one. Worker processes start here.
"""

import itertools
import multiprocessing
import os
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float16, Int
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from leakdet.config import DataConfig
from leakdet.loading.loaders import TrainLoader
from leakdet.loading.order import RecordingRange, StreamPlan, share_sizes
from leakdet.loading.samples import Batch, SplitSamples, take_into
from leakdet.storage.integrity import check_recordings


class Block(NamedTuple):
    """Recordings in memory, and samples of them in the order to hand out, with their recordings."""

    mel: Float16[np.ndarray, "N U M T"]
    order: Int[np.ndarray, " D"]
    recording: Int[np.ndarray, " D"]


class StreamReader(IterableDataset[Batch]):
    """The batches that one process reads: those of its rank; in a worker, every workers-th one."""

    def __init__(self, loader: TrainLoader) -> None:
        self.samples, self.data, self.seed = loader.samples, loader.data, loader.seed
        self.bounds, self.rank, self.world = loader.bounds, loader.rank, loader.world
        # epoch and first batch
        self._position = torch.zeros(2, dtype=torch.int64)
        if self.data.workers:  # in shared memory: a worker's copy sees no other change
            self._position.share_memory_()  # type: ignore[no-untyped-call]
        self._first_epoch: int | None = None

    def start_at(self, epoch: int, batch: int) -> None:
        """The next iteration, in this process or its workers, begins there."""
        self._position[0], self._position[1] = epoch, batch

    def __iter__(self) -> Iterator[Batch]:
        epoch, start = self._position.tolist()
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        # DataLoader takes the first batch from worker 0, the next from worker 1, and so on
        number = (start + worker) % workers
        sizes = [
            share_sizes(self.bounds, rank, self.world)[other::workers]
            for rank in range(self.world)
            for other in range(workers)
        ]
        part = self.rank * workers + number
        ends = np.cumsum([of_part.sum() for of_part in sizes])
        blocks = self._blocks(epoch, int(ends[part] - sizes[part].sum()), int(ends[part]))
        already_seen = len(range(number, start, workers))
        return itertools.islice(self._batches(blocks, sizes[part].tolist()), already_seen, None)

    def _batches(self, blocks: Iterator[Block], sizes: list[int]) -> Iterator[Batch]:
        """Batches of these sizes, each from one block or several."""
        block: Block | None = None
        at = 0
        for size in sizes:
            mel, recording = self.samples.empty_mel(size), np.empty(size, np.int64)
            filled = 0
            while filled < size:
                if block is None or at == len(block.order):
                    block, at = next(blocks), 0
                index = block.order[at : at + size - filled]
                stop = filled + len(index)
                take_into(mel.numpy()[filled:stop], block.mel, index)
                recording[filled:stop] = block.recording[at : at + len(index)]
                at, filled = at + len(index), stop
            yield self.samples.described(mel, recording)

    def _blocks(self, epoch: int, low: int, high: int) -> Iterator[Block]:
        """The draws [low, high) of the epoch; what a process reads first is verified."""
        if self._first_epoch is None:
            self._first_epoch = epoch
        plan = StreamPlan(self.samples, self.data, self.seed, epoch)
        blocks = plan.blocks(low, high)
        rng = np.random.default_rng([self.seed, epoch, 2, low])
        read = partial(self._read, plan, rng, epoch == self._first_epoch)
        largest = max((sum(map(plan.windows, block)) for block in blocks), default=0)
        buffers = np.empty((2, largest, *self.samples.split.mel.shape[1:]), np.float16)
        coming: Future[Block] | None = None
        with ThreadPoolExecutor(1, thread_name_prefix="read-ahead") as thread:
            for number, ranges in enumerate(blocks):
                # into the buffer of the block before the last, which was handed out completely
                following = thread.submit(read, ranges, buffers[number % 2])
                if coming is not None:
                    yield coming.result()
                coming = following
            if coming is not None:
                yield coming.result()

    def _read(
        self,
        plan: StreamPlan,
        rng: np.random.Generator,
        check: bool,
        ranges: list[RecordingRange],
        buffer: np.ndarray,
    ) -> Block:
        """Read the recordings of these ranges and shuffle what is drawn from them."""
        samples, split = self.samples, self.samples.split
        filled = 0
        indices, recordings = [], []
        for span in ranges:
            start, stop = split.recording_offsets[[span.first, span.last]].tolist()
            rows = split.read(start, stop, out=buffer[filled : filled + stop - start])
            if check:
                check_recordings(split, span.first, span.last, rows)
            index, recording = plan.drawn(span)
            indices.append(index + filled * samples.per_window)
            recordings.append(recording)
            filled += stop - start
        order = rng.permutation(sum(map(len, indices)))
        mel = buffer[:filled].reshape(-1, *samples.shape)
        return Block(mel, np.concatenate(indices)[order], np.concatenate(recordings)[order])


class StreamLoader(TrainLoader):
    """Training batches read from the files by this process, or by `data.workers` others."""

    def __init__(
        self, samples: SplitSamples, data: DataConfig, seed: int, rank: int = 0, world: int = 1
    ) -> None:
        super().__init__(samples, data, seed, rank, world)
        self.order = (
            f"streamed (data.residency=stream) by {world} process{'es' if world > 1 else ''}"
        )
        self.reader = StreamReader(self)
        self._workers = self._start_workers() if data.workers else None
        self._readers, self._starting = max(1, data.workers), data.workers > 0

    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        self.reader.start_at(epoch, start)
        return iter(self.reader if self._workers is None else self._workers)

    def _start_workers(self) -> DataLoader[Batch]:
        """Workers start with the first epoch and end with this object."""
        context = multiprocessing.get_context(self.data.worker_start)
        # the server imports once what all workers need, and shares that memory
        if self.data.worker_start == "forkserver":
            context.set_forkserver_preload([__name__])
        loader = DataLoader(
            self.reader,
            batch_size=None,
            num_workers=self.data.workers,
            worker_init_fn=_end_with_parent,
            persistent_workers=True,
            multiprocessing_context=context,
            pin_memory=self.samples.for_accelerator,
        )
        # A DataLoader that is collected in a reference cycle, as a trainer and its data are, closes
        # its queues before it tells the workers to end, and waits five seconds for each of them.
        # This reference keeps it out of the cycle.
        weakref.finalize(self, _release, loader)
        return loader


def _end_with_parent(_: int) -> None:
    """Let this worker end when the training process has ended, however it did.

    torch's own watch looks at the process that forked the worker: of a server, that is the server.
    """
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True, name="end-with-parent").start()


def _release(loader: DataLoader[Batch]) -> None:
    """Drop the last reference to a loader, and with it end its workers."""
