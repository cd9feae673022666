"""Training batches from a split that does not fit in memory: chunks of recordings, shuffled within a buffer.

Each worker of each rank reads one part of the epoch. While the samples of one block are handed out,
a thread reads the next. Worker processes start with this module.
"""

import itertools
import multiprocessing
import weakref
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float16, Int
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from leakdet.config import DataConfig
from leakdet.loading.samples import Batch, SplitSamples, take_into
from leakdet.loading.sampling import share_sizes
from leakdet.loading.stream_plan import StreamPlan, Stretch
from leakdet.loading.train_loader import TrainLoader
from leakdet.storage.integrity import check_recordings
from leakdet.storage.mel_array import page_aligned


class Block(NamedTuple):
    """Recordings in memory, and which of their samples to hand out: in shuffled order, with the recording of each."""

    mel: Float16[np.ndarray, "N U M T"]
    order: Int[np.ndarray, " D"]
    recording: Int[np.ndarray, " D"]


class StreamReader(IterableDataset[Batch]):
    """The batches that one process reads: those of a rank, or as one of its workers every workers-th of them."""

    def __init__(
        self,
        samples: SplitSamples,
        data: DataConfig,
        seed: int,
        bounds: Int[np.ndarray, " bounds"],
        rank: int,
        world: int,
    ) -> None:
        self.samples, self.data, self.seed = samples, data, seed
        self.bounds, self.rank, self.world = bounds, rank, world
        # epoch and first batch; shared, because persistent workers see no later change of attributes
        self._position: Tensor = torch.zeros(2, dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]
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
        sizes = [share_sizes(self.bounds, rank, self.world) for rank in range(self.world)]
        parts = [of_rank[other::workers] for of_rank in sizes for other in range(workers)]
        part = self.rank * workers + number
        low, high = (sum(int(each.sum()) for each in parts[:end]) for end in (part, part + 1))
        already_seen = len(range(number, start, workers))
        batches = self._batches(self._blocks(epoch, low, high), parts[part].tolist())
        return itertools.islice(batches, already_seen, None)

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
        """The draws [low, high) of the epoch. In this process's first one, recordings are verified."""
        if self._first_epoch is None:
            self._first_epoch = epoch
        plan = StreamPlan(self.samples, self.data, self.seed, epoch)
        blocks = plan.blocks(low, high)
        most = max((sum(each.stop - each.skip for each in block) for block in blocks), default=0)
        shuffled = np.random.default_rng([self.seed, epoch, 2, low]).permutation(most)
        read = partial(self._read, plan, shuffled, epoch == self._first_epoch)
        largest = max((plan.windows(block) for block in blocks), default=0)
        buffers = [page_aligned((largest, *self.samples.split.mel.shape[1:])) for _ in range(2)]
        coming: Future[Block] | None = None
        with ThreadPoolExecutor(1, thread_name_prefix="read-ahead") as thread:
            for number, stretches in enumerate(blocks):
                # into the buffer of the block before the last, which was handed out completely
                following = thread.submit(read, stretches, buffers[number % 2])
                if coming is not None:
                    yield coming.result()
                coming = following
            if coming is not None:
                yield coming.result()

    def _read(
        self,
        plan: StreamPlan,
        shuffled: np.ndarray,
        check: bool,
        stretches: list[Stretch],
        buffer: np.ndarray,
    ) -> Block:
        """Read the recordings of these stretches and shuffle what is drawn from them."""
        samples, split = self.samples, self.samples.split
        filled = 0
        indices, recordings = [], []
        for stretch in stretches:
            start, stop = split.recording_offsets[[stretch.first, stretch.last]].tolist()
            rows = split.read(start, stop, out=buffer[filled : filled + stop - start])
            if check:
                check_recordings(split, stretch.first, stretch.last, rows)
            index, recording = plan.drawn(stretch)
            indices.append(index + filled * samples.per_window)
            recordings.append(recording)
            filled += stop - start
        order = shuffled[shuffled < sum(map(len, indices))]
        mel = buffer[:filled].reshape(-1, *samples.shape)
        return Block(mel, np.concatenate(indices)[order], np.concatenate(recordings)[order])


class StreamLoader(TrainLoader):
    """Training batches read from the files by this process, or by `data.workers` others."""

    def __init__(
        self, samples: SplitSamples, data: DataConfig, seed: int, rank: int = 0, world: int = 1
    ) -> None:
        super().__init__(samples, data, seed, rank, world)
        self.order = f"streamed (data.residency=stream) by {world} processes"
        self.reader = StreamReader(samples, data, seed, self.bounds, rank, world)
        self._workers = self._start_workers() if data.workers else None

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
            persistent_workers=True,
            multiprocessing_context=context,
            pin_memory=self.samples.for_accelerator,
        )
        # A DataLoader that is collected in a reference cycle, as a trainer and its data are, closes its queues before
        # it tells the workers to end, and waits five seconds for each. This reference keeps it out of the cycle.
        weakref.finalize(self, _release, loader)
        return loader


def _release(loader: DataLoader[Batch]) -> None:
    """Drop the last reference to a loader, and with it end its workers."""
