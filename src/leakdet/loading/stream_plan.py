"""Which recordings a process reads for its part of a streamed epoch, and how often each of their samples is drawn.

An epoch is a sequence of draws: chunk after chunk in shuffled order, in each chunk the samples that
the sampling draws. A part of the epoch is a range of this sequence, cut to the sample. All of it
follows from (seed, epoch): processes exchange nothing, and nothing is held per sample.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from leakdet.config import DataConfig
from leakdet.loading.samples import SplitSamples
from leakdet.loading.sampling import epoch_draws

# of consecutive recordings that are read at once: a disk's seek costs less than their transfer
CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Stretch:
    """Draws [skip, stop) of the recordings [first, last), which lie one after another in the files."""

    first: int
    last: int
    skip: int
    stop: int


class StreamPlan:
    """The draws of one epoch.

    A class of n samples and d draws: its sample j is drawn floor((j + 1 + shift)·d/n) − floor((j + shift)·d/n)
    times. These add up to d, differ by one at most and lie evenly over the class; `shift` moves with
    the epoch, so that in time all samples are drawn.
    """

    def __init__(self, samples: SplitSamples, data: DataConfig, seed: int, epoch: int) -> None:
        self.samples, self.data, self.seed, self.epoch = samples, data, seed, epoch
        self._counts = samples.class_counts()
        self._draws = epoch_draws(self._counts, data, epoch)
        rng = np.random.default_rng([seed, epoch, 1])
        self._shift = rng.integers(0, np.maximum(1, self._counts))
        # samples of a recording's class in the recordings before it
        self._place_in_class = np.zeros(samples.split.recordings, np.int64)
        size = np.diff(samples.offsets)
        for number in range(len(self._counts)):
            members = np.flatnonzero(samples.class_of_recording == number)
            self._place_in_class[members] = np.cumsum(size[members]) - size[members]
        recordings = np.arange(len(size))
        self._draws_of_recording = self._draws_before(recordings, size) - self._draws_before(
            recordings, np.zeros_like(size)
        )

    def _draws_before(
        self, recording: Int[np.ndarray, " N"], sample: Int[np.ndarray, " N"]
    ) -> Int[np.ndarray, " N"]:
        """Draws of a recording's class before the recording's `sample`-th sample, up to a constant of the class."""
        class_id = self.samples.class_of_recording[recording]
        place = self._place_in_class[recording] + sample + self._shift[class_id]
        return np.asarray(place * self._draws[class_id] // self._counts[class_id])

    def drawn(self, stretch: Stretch) -> tuple[Int[np.ndarray, " D"], Int[np.ndarray, " D"]]:
        """The samples that a stretch draws, counted from its first, and their recordings; one drawn twice is there twice."""
        offsets = self.samples.offsets[stretch.first : stretch.last + 1]
        recording = np.repeat(np.arange(stretch.first, stretch.last), np.diff(offsets))
        sample = np.arange(offsets[0], offsets[-1]) - self.samples.offsets[recording]
        before, after = (self._draws_before(recording, sample + one) for one in (0, 1))
        index = np.repeat(np.arange(len(recording)), after - before)[stretch.skip : stretch.stop]
        return index, recording[index]

    def blocks(self, low: int, high: int) -> list[list[Stretch]]:
        """The draws [low, high) of the epoch, as stretches that are shuffled together: what half of `buffer_mb` holds."""
        most = self.data.buffer_mb * 10**6 / 2 / self.samples.split.mel.window_bytes
        blocks: list[list[Stretch]] = []
        for stretch in self._stretches(low, high):
            if not blocks or self.windows([*blocks[-1], stretch]) > most:
                blocks.append([])
            blocks[-1].append(stretch)
        return blocks

    def windows(self, block: list[Stretch]) -> int:
        """Windows of the recordings of a block."""
        offsets = self.samples.split.recording_offsets
        return sum(int(offsets[stretch.last] - offsets[stretch.first]) for stretch in block)

    def _stretches(self, low: int, high: int) -> list[Stretch]:
        """The draws [low, high) of the epoch, chunk by chunk."""
        split = self.samples.split
        chunks = chunk_bounds(split.windows_per_recording * split.mel.window_bytes, CHUNK_BYTES)
        order = np.random.default_rng([self.seed, self.epoch, 3]).permutation(len(chunks) - 1)
        draws = np.add.reduceat(self._draws_of_recording, chunks[:-1])[order]
        ends = np.cumsum(draws)
        # draws of each chunk that lie before and up to the end of the range
        skip = np.clip(low - (ends - draws), 0, draws)
        stop = np.clip(high - (ends - draws), 0, draws)
        first, last = chunks[order], chunks[order + 1]
        rows = np.stack([first, last, skip, stop], axis=1)[skip < stop]
        return [Stretch(*row) for row in rows.tolist()]


def chunk_bounds(
    bytes_per_recording: Int[np.ndarray, " R"], chunk_bytes: int
) -> Int[np.ndarray, " bounds"]:
    """First recording of each chunk, and their number: a chunk is one recording, or several that are smaller together."""
    before = np.cumsum(bytes_per_recording) - bytes_per_recording
    first = np.flatnonzero(np.diff(before // chunk_bytes, prepend=-1))
    return np.append(first, len(bytes_per_recording)).astype(np.int64)
