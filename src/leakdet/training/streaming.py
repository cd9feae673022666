"""A split that does not fit in memory: chunks of whole recordings in shuffled order, through two buffers, exactly once.

An epoch is a sequence of draws: chunk after chunk in a shuffled order, in each chunk the samples that the sampling draws.
Each worker of each rank takes a consecutive part of it, cut to the sample: every rank has as many batches as `ram` has, of the
same sizes. A process derives its part from (seed, epoch) alone. Memory is two buffers and a few numbers per recording.

Nothing here imports Lightning: worker processes start with this module.
"""

import itertools
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from leakdet.config import DataConfig
from leakdet.storage.checking import check_recordings
from leakdet.training.samples import Batch, SplitSamples, gathered
from leakdet.training.sampling import batch_bounds, epoch_draws, share_sizes

CHUNK_BYTES = 1 << 20  # read at once where recordings are smaller: a disk's seek costs less than its transfer


class Draws:
    """How often an epoch draws each sample, in closed form: nothing is held per sample.

    A class of n samples and d draws: sample j is drawn floor((j + 1 + shift)·d/n) − floor((j + shift)·d/n) times. These add up
    to d, differ by one at most, and lie evenly over the class; `shift` moves with the epoch, so that in time all are drawn.
    """

    def __init__(self, samples: SplitSamples, data: DataConfig, seed: int, epoch: int) -> None:
        self._class = samples.class_of_recording
        size = np.diff(samples.offsets)
        self._count = np.bincount(self._class, size).astype(np.int64)
        self._drawn = epoch_draws(self._count, data.sampling, epoch, data.curriculum_epochs)
        rng = np.random.default_rng([seed, epoch, 1])
        self._shift = rng.integers(0, np.maximum(1, self._count))
        self._within_class = np.zeros(len(size), np.int64)  # samples of the class before this recording
        for number in range(len(self._count)):
            members = np.flatnonzero(self._class == number)
            self._within_class[members] = np.cumsum(size[members]) - size[members]
        self.of_recording = self._up_to(size, np.arange(len(size))) - self._up_to(0, np.arange(len(size)))

    def _up_to(self, sample: np.ndarray | int, recording: np.ndarray) -> np.ndarray:
        """Draws of the recording's class before its `sample`-th one, up to a constant of the class."""
        kind = self._class[recording]
        place = self._within_class[recording] + sample + self._shift[kind]
        return np.asarray(place * self._drawn[kind] // np.maximum(1, self._count[kind]))

    def of_samples(self, recording: np.ndarray, within: np.ndarray) -> np.ndarray:
        """Draws of the samples that are the `within`-th of their `recording`, int64 [n]."""
        return np.asarray(self._up_to(within + 1, recording) - self._up_to(within, recording))

    @property
    def once(self) -> bool:
        """Every sample exactly once: there is nothing to count."""
        return bool((self._drawn == self._count).all())


@dataclass(frozen=True)
class _Stretch:
    """Draws [skip, stop) of the recordings [first, last), which lie one after another in the files."""

    first: int
    last: int
    skip: int
    stop: int


class _Block:
    """A buffer of whole recordings and a shuffled list of which of its samples to hand out."""

    def __init__(self, mel: Tensor, recording: Tensor, order: Tensor) -> None:
        self.mel, self.recording, self.order, self.at = mel, recording, order, 0

    @property
    def left(self) -> int:
        return len(self.order) - self.at

    def take(self, count: int) -> tuple[Tensor, Tensor]:
        index = self.order[self.at : self.at + count]
        self.at += count
        return gathered(self.mel, index), gathered(self.recording, index)


class StreamEpochs(IterableDataset[Batch]):
    """The batches of one rank, read from the files. With `workers` each worker process reads every workers-th batch."""

    def __init__(
        self, samples: SplitSamples, data: DataConfig, seed: int, rank: int = 0, world: int = 1
    ) -> None:
        self.samples, self.data, self.seed = samples, data, seed
        self.rank, self.world = rank, world
        # in shared memory, because workers that persist never see the loader's own attributes again
        self._epoch: Tensor = torch.zeros(2, dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]
        bytes_per_recording = np.diff(samples.split.recording_offsets) * samples.split.mel.window_bytes
        self._chunks = chunk_bounds(bytes_per_recording)
        counts = samples.class_counts(int(samples.class_of_recording.max()) + 1)
        draws = epoch_draws(counts, data.sampling, 0, data.curriculum_epochs)
        self.bounds = batch_bounds(int(draws.sum()), data.batch_size, world)
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
                pin_memory=torch.cuda.is_available(),
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
        blocks = self._blocks(draws, epoch, low, low + int(shards[shard].sum()))
        done = len(range(worker, start, workers))
        return itertools.islice(self._cut(blocks, shards[shard].tolist()), done, None)

    def _cut(self, blocks: Iterator[_Block], sizes: list[int]) -> Iterator[Batch]:
        """Batches of these sizes; a batch may take the end of one block and the beginning of the next."""
        block: _Block | None = None
        for size in sizes:
            parts: list[tuple[Tensor, Tensor]] = []
            missing = size
            while missing:
                if block is None or not block.left:
                    block = next(blocks)
                    continue
                parts.append(block.take(min(missing, block.left)))
                missing -= len(parts[-1][1])
            mel, recording = parts[0] if len(parts) == 1 else (torch.cat(t) for t in zip(*parts, strict=True))
            yield self.samples.described(mel, recording)

    def _blocks(self, draws: Draws, epoch: int, low: int, high: int) -> Iterator[_Block]:
        """Blocks that together hold the draws [low, high) of the epoch; the next one is read while one is handed out."""
        stretches = list(self._stretches(draws, epoch, low, high))
        rng = np.random.default_rng([self.seed, epoch, 2, low])
        groups = self._groups(stretches)
        windows = max((sum(self._windows(s) for s in group) for group in groups), default=0)
        buffers = [np.empty((windows, *self.samples.split.mel.shape[1:]), np.float16) for _ in range(2)]
        coming: deque[Future[_Block]] = deque()
        with ThreadPoolExecutor(1) as reader:
            for number, group in enumerate(groups):
                coming.append(reader.submit(self._load, group, draws, buffers[number % 2], rng, epoch == 0))
                if (
                    len(coming) == 2
                ):  # the buffer that is filled next is the one of the block that was handed out
                    yield coming.popleft().result()
            while coming:
                yield coming.popleft().result()

    def _stretches(self, draws: Draws, epoch: int, low: int, high: int) -> Iterator[_Stretch]:
        chunks = self._chunks
        drawn = np.add.reduceat(draws.of_recording, chunks[:-1])
        order = np.random.default_rng([self.seed, epoch, 3]).permutation(len(chunks) - 1)
        ends = np.cumsum(drawn[order])
        for place in range(
            int(np.searchsorted(ends, low, side="right")), int(np.searchsorted(ends, high, side="left")) + 1
        ):
            if place == len(order) or low >= high:
                return
            chunk = order[place]
            begin = int(ends[place] - drawn[chunk])
            skip, stop = max(0, low - begin), min(int(drawn[chunk]), high - begin)
            if skip < stop:
                yield _Stretch(int(chunks[chunk]), int(chunks[chunk + 1]), skip, stop)

    def _windows(self, stretch: _Stretch) -> int:
        offsets = self.samples.split.recording_offsets
        return int(offsets[stretch.last] - offsets[stretch.first])

    def _groups(self, stretches: list[_Stretch]) -> list[list[_Stretch]]:
        """Stretches that share a buffer: as many as half of `buffer_mb` holds, at least one."""
        room = self.data.buffer_mb * 10**6 / 2 / self.samples.split.mel.window_bytes
        groups: list[list[_Stretch]] = []
        held = room
        for stretch in stretches:
            windows = self._windows(stretch)
            if held + windows > room:
                groups.append([])
                held = 0
            groups[-1].append(stretch)
            held += windows
        return groups

    def _load(
        self, group: list[_Stretch], draws: Draws, buffer: np.ndarray, rng: np.random.Generator, check: bool
    ) -> _Block:
        """Read the recordings of a group into `buffer` and shuffle what is drawn from them."""
        samples, split = self.samples, self.samples.split
        filled = 0  # windows
        owners, orders = [], []
        for stretch in group:
            start, stop = (int(split.recording_offsets[r]) for r in (stretch.first, stretch.last))
            rows = split.read(start, stop, out=buffer[filled : filled + stop - start])
            if check:
                check_recordings(split, stretch.first, stretch.last, rows)
            owner = np.repeat(
                np.arange(stretch.first, stretch.last, dtype=np.int32),
                np.diff(samples.offsets[stretch.first : stretch.last + 1]),
            )
            if draws.once:
                drawn = np.arange(stretch.skip, stretch.stop)
            else:
                within = np.arange(len(owner)) + int(samples.offsets[stretch.first]) - samples.offsets[owner]
                times = draws.of_samples(owner, within)
                drawn = np.repeat(np.arange(len(owner)), times)[stretch.skip : stretch.stop]
            orders.append(filled * samples.per_window + drawn)
            owners.append(owner)
            filled += stop - start
        mel = torch.from_numpy(buffer[:filled])
        mel = mel.flatten(0, 1)[:, None] if samples.unit == "segment" else mel
        order = rng.permutation(np.concatenate(orders))
        return _Block(mel, torch.from_numpy(np.concatenate(owners)), torch.from_numpy(order))


def chunk_bounds(bytes_per_recording: np.ndarray, chunk_bytes: int = CHUNK_BYTES) -> np.ndarray:
    """First recording of each chunk, and their number: a chunk is one recording, or several that are smaller together."""
    before = np.cumsum(bytes_per_recording) - bytes_per_recording
    first = np.flatnonzero(np.diff(before // chunk_bytes, prepend=-1))
    return np.append(first, len(bytes_per_recording)).astype(np.int64)
