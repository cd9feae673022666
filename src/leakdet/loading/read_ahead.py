"""Reading one part of a streamed epoch: chunks of whole recordings in shuffled order, through two buffers.

While one buffer is handed out in shuffled order, a thread fills and shuffles the other. Every byte is copied twice: from the
page cache into a buffer, and from there into a batch.
"""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from leakdet.config import DataConfig
from leakdet.loading.draws import Draws
from leakdet.loading.samples import SplitSamples, take_into
from leakdet.storage.integrity import check_recordings
from leakdet.storage.mel_array import page_aligned

# read at once where recordings are smaller: a disk's seek costs less than its transfer
CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Stretch:
    """Draws [skip, stop) of the recordings [first, last), which lie one after another in the files."""

    first: int
    last: int
    skip: int
    stop: int


class Block:
    """Some recordings in memory and a shuffled list of which of their samples to hand out.

    mel [N, U, M, T]; order [draws] numbers its samples; recording [draws] is that of each, in this order.
    """

    def __init__(self, mel: np.ndarray, order: np.ndarray, recording: np.ndarray) -> None:
        self.mel, self.order, self.recording, self.at = mel, order, recording, 0

    def fill(self, mel: np.ndarray, recording: np.ndarray) -> int:
        """Hand out as many samples as are left, or as there is room for; returns how many."""
        index = self.order[self.at : self.at + len(recording)]
        take_into(mel[: len(index)], self.mel, index)
        recording[: len(index)] = self.recording[self.at : self.at + len(index)]
        self.at += len(index)
        return len(index)


class BlockReader:
    """Blocks of any part of any epoch of `samples`, the same in every process. Keeps its two buffers from epoch to epoch."""

    def __init__(self, samples: SplitSamples, data: DataConfig, seed: int) -> None:
        self.samples, self.data, self.seed = samples, data, seed
        bytes_per_recording = (
            np.diff(samples.split.recording_offsets) * samples.split.mel.window_bytes
        )
        self._chunks = chunk_bounds(bytes_per_recording, CHUNK_BYTES)
        self._spare: list[np.ndarray] = []
        # the epoch in which this process looks at what it reads: its first
        self._checked: int | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_spare": [], "_checked": None}

    def blocks(self, draws: Draws, epoch: int, low: int, high: int) -> Iterator[Block]:
        """Blocks that together hold the draws [low, high) of the epoch; each is good until the next one is asked for."""
        groups = self._groups(list(self._stretches(draws, epoch, low, high)))
        windows = max((sum(self._windows(s) for s in group) for group in groups), default=0)
        buffers = [self._buffer(windows) for _ in range(2)]
        most = max((sum(s.stop - s.skip for s in group) for group in groups), default=0)
        shuffled = (
            np.random.default_rng([self.seed, epoch, 2, low]).permutation(most).astype(np.int32)
        )
        self._checked = epoch if self._checked is None else self._checked
        coming: deque[Future[Block]] = deque()
        try:
            with ThreadPoolExecutor(1, thread_name_prefix="read-ahead") as reader:
                for number, group in enumerate(groups):
                    # into the buffer of the block before the last: all of it was handed out
                    buffer = buffers[number % 2]
                    check = epoch == self._checked
                    coming.append(reader.submit(self._load, group, draws, buffer, shuffled, check))
                    if len(coming) == 2:
                        yield coming.popleft().result()
                while coming:
                    yield coming.popleft().result()
        finally:
            self._spare = buffers

    def _buffer(self, windows: int) -> np.ndarray:
        """One that an earlier epoch left, where it is large enough: new memory costs as much as filling it."""
        buffer = self._spare.pop() if self._spare else None
        if buffer is not None and len(buffer) >= windows:
            return buffer
        return page_aligned((windows, *self.samples.split.mel.shape[1:]))

    def _stretches(self, draws: Draws, epoch: int, low: int, high: int) -> Iterator[Stretch]:
        chunks = self._chunks
        drawn = np.add.reduceat(draws.of_recording, chunks[:-1])
        order = np.random.default_rng([self.seed, epoch, 3]).permutation(len(chunks) - 1)
        ends = np.cumsum(drawn[order])
        first = int(np.searchsorted(ends, low, side="right"))
        last = int(np.searchsorted(ends, high, side="left")) + 1
        for place in range(first, min(last, len(order))):
            chunk = order[place]
            begin = int(ends[place] - drawn[chunk])
            skip, stop = max(0, low - begin), min(int(drawn[chunk]), high - begin)
            if skip < stop:
                yield Stretch(int(chunks[chunk]), int(chunks[chunk + 1]), skip, stop)

    def _windows(self, stretch: Stretch) -> int:
        offsets = self.samples.split.recording_offsets
        return int(offsets[stretch.last] - offsets[stretch.first])

    def _groups(self, stretches: list[Stretch]) -> list[list[Stretch]]:
        """Stretches that share a buffer: as many as half of `buffer_mb` holds, at least one."""
        room = self.data.buffer_mb * 10**6 / 2 / self.samples.split.mel.window_bytes
        groups: list[list[Stretch]] = []
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
        self,
        group: list[Stretch],
        draws: Draws,
        buffer: np.ndarray,
        shuffled: np.ndarray,
        check: bool,
    ) -> Block:
        """Read the recordings of a group into `buffer` and shuffle what is drawn from them.

        `shuffled` is a permutation of as many numbers as the largest group draws; those below n, in its order, are one of n, as
        random as it is. An epoch draws it once: drawing takes as long as reading what it shuffles.
        """
        samples, split = self.samples, self.samples.split
        filled = 0  # windows
        owners, orders = [], []
        for stretch in group:
            start, stop = (int(split.recording_offsets[r]) for r in (stretch.first, stretch.last))
            rows = split.read(start, stop, out=buffer[filled : filled + stop - start])
            if check:
                check_recordings(split, stretch.first, stretch.last, rows)
            orders.append(self._drawn(stretch, draws) + np.int32(filled * samples.per_window))
            counts = np.diff(split.recording_offsets[stretch.first : stretch.last + 1])
            owners.append(np.repeat(np.arange(stretch.first, stretch.last, dtype=np.int32), counts))
            filled += stop - start
        mel = buffer[:filled]
        if samples.unit == "segment":
            mel = mel.reshape(-1, 1, *mel.shape[2:])
        drawn = np.concatenate(orders)
        order = drawn[shuffled[shuffled < len(drawn)]]
        return Block(mel, order, np.concatenate(owners)[order // samples.per_window])

    def _drawn(self, stretch: Stretch, draws: Draws) -> np.ndarray:
        """Which samples of the stretch are drawn, counted from its first; one that is drawn twice is there twice."""
        if draws.once:
            return np.arange(stretch.skip, stretch.stop, dtype=np.int32)
        offsets = self.samples.offsets[stretch.first : stretch.last + 1]
        owner = np.repeat(np.arange(stretch.first, stretch.last), np.diff(offsets))
        within = np.arange(len(owner)) + int(offsets[0]) - self.samples.offsets[owner]
        times = draws.of_samples(owner, within)
        return np.repeat(np.arange(len(owner), dtype=np.int32), times)[stretch.skip : stretch.stop]


def chunk_bounds(bytes_per_recording: np.ndarray, chunk_bytes: int) -> np.ndarray:
    """First recording of each chunk, and their number: a chunk is one recording, or several that are smaller together."""
    before = np.cumsum(bytes_per_recording) - bytes_per_recording
    first = np.flatnonzero(np.diff(before // chunk_bytes, prepend=-1))
    return np.append(first, len(bytes_per_recording)).astype(np.int64)
