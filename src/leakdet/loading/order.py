"""The order of samples and batches in an epoch, in memory and of a streamed store.

An epoch is a sequence of draws: chunk after chunk in shuffled order, in each chunk the samples that
the sampling draws. A part of the epoch is a range of this sequence, cut to the sample. All of it
follows from (seed, epoch): processes exchange nothing, and nothing is held per sample.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from leakdet.config import DataConfig
from leakdet.loading.samples import SplitSamples


def epoch_draws(
    counts: Int[np.ndarray, " C"], data: DataConfig, epoch: int = 0
) -> Int[np.ndarray, " C"]:
    """Number of samples of each class that the epoch draws, where the split has `counts`.

    natural: every sample once. balanced: as many draws as there are samples, the same number of
    each class. oversampled: every class as often as the most frequent one. curriculum: balanced in
    epoch 0, moving linearly to the natural mix in epoch `curriculum_epochs`.
    """
    present = counts > 0
    if data.sampling == "oversampled":
        return np.where(present, counts.max(), 0)
    curriculum = min(1.0, epoch / data.curriculum_epochs)
    toward_natural = {"natural": 1.0, "balanced": 0.0, "curriculum": curriculum}[data.sampling]
    if toward_natural == 1.0:
        return counts
    even = counts.sum() / present.sum()
    wanted = np.where(present, toward_natural * counts + (1 - toward_natural) * even, 0)
    draws = np.floor(wanted).astype(np.int64)
    missing = counts.sum() - draws.sum()
    draws[np.argsort(draws - wanted, kind="stable")[:missing]] += 1
    return draws


def drawn_mix(
    counts: Int[np.ndarray, " C"], data: DataConfig, epoch: int = 0
) -> Float[np.ndarray, " C"]:
    """Share of each class among the samples that the epoch draws."""
    draws = epoch_draws(counts, data, epoch)
    return np.asarray(draws / max(1, draws.sum()))


def epoch_order(
    class_of_recording: Int[np.ndarray, " R"],
    size_of_recording: Int[np.ndarray, " R"],
    data: DataConfig,
    seed: int,
    epoch: int,
) -> Int[np.ndarray, " D"]:
    """The samples of the epoch in its order; those of a class come equally often, or differ by one.

    Samples are numbered recording after recording; `size_of_recording` counts them.
    """
    rng = np.random.default_rng([seed, epoch])
    counts = np.bincount(class_of_recording, size_of_recording).astype(np.int64)
    draws = epoch_draws(counts, data, epoch)
    order = rng.permutation(int(draws.sum()))
    if (draws == counts).all():
        return order  # every sample once
    class_of_sample = np.repeat(class_of_recording, size_of_recording)
    drawn = []
    for number, count in enumerate(draws.tolist()):
        members = rng.permutation(np.flatnonzero(class_of_sample == number))
        drawn.append(np.resize(members, count))
    return np.asarray(np.concatenate(drawn)[order])


def batch_bounds(samples: int, batch_size: int, world: int = 1) -> Int[np.ndarray, " bounds"]:
    """Bounds of the fewest batches of at most `batch_size`, whose sizes differ by one at most.

    There is no tiny last batch, which would weigh as much as a full one in the optimiser. No batch
    is smaller than `world`: a process without a part of it would leave the others waiting for ever.
    """
    batches = min(-(-samples // batch_size), samples // world)
    return np.arange(batches + 1, dtype=np.int64) * samples // max(1, batches)


def epoch_bounds(
    counts: Int[np.ndarray, " C"], data: DataConfig, world: int = 1
) -> Int[np.ndarray, " bounds"]:
    """Bounds of the batches of an epoch, the same in all, where the split has `counts`."""
    return batch_bounds(int(epoch_draws(counts, data).sum()), data.batch_size, world)


def share_sizes(
    bounds: Int[np.ndarray, " bounds"], rank: int, world: int
) -> Int[np.ndarray, " batches"]:
    """Samples of each batch that `rank` gets: every world-th."""
    return np.asarray((np.diff(bounds) - rank + world - 1) // world)


# of consecutive recordings that are read at once: a disk's seek costs less than their transfer
CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class RecordingRange:
    """Draws [skip, stop) of the consecutive recordings [first, last)."""

    first: int
    last: int
    skip: int
    stop: int


class StreamPlan:
    """The draws of one epoch.

    Of a class of n samples and d draws, sample j is drawn
    floor((j + 1 + shift)·d/n) − floor((j + shift)·d/n) times. These numbers add up to d, differ by
    one at most and spread evenly over the class; `shift` differs from epoch to epoch, so that in
    time all samples are drawn.
    """

    def __init__(self, samples: SplitSamples, data: DataConfig, seed: int, epoch: int) -> None:
        self.samples, self.data, self.seed, self.epoch = samples, data, seed, epoch
        self._counts = samples.class_counts()
        self._draws = epoch_draws(self._counts, data, epoch)
        rng = np.random.default_rng([seed, epoch, 1])
        self._shift = rng.integers(0, np.maximum(1, self._counts))
        # samples of a recording's class in the recordings before it
        self._place_in_class = np.zeros(samples.split.recordings, np.int64)
        size = samples.size_of_recording
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
        """Draws of a class before the `sample`-th one of a recording, plus a constant."""
        class_id = self.samples.class_of_recording[recording]
        place = self._place_in_class[recording] + sample + self._shift[class_id]
        return np.asarray(place * self._draws[class_id] // self._counts[class_id])

    def drawn(self, span: RecordingRange) -> tuple[Int[np.ndarray, " D"], Int[np.ndarray, " D"]]:
        """The samples that a range draws, counted from its first, and their recordings.

        A sample that is drawn twice comes twice.
        """
        offsets = self.samples.offsets[span.first : span.last + 1]
        recording = np.repeat(np.arange(span.first, span.last), np.diff(offsets))
        sample = np.arange(offsets[0], offsets[-1]) - self.samples.offsets[recording]
        before, after = (self._draws_before(recording, sample + one) for one in (0, 1))
        index = np.repeat(np.arange(len(recording)), after - before)[span.skip : span.stop]
        return index, recording[index]

    def blocks(self, low: int, high: int) -> list[list[RecordingRange]]:
        """The draws [low, high) of the epoch, in blocks that half of `data.buffer_mb` holds."""
        most = self.data.buffer_mb * 10**6 / 2 / self.samples.split.mel.window_bytes
        blocks: list[list[RecordingRange]] = []
        filled = 0
        for span in self._ranges(low, high):
            windows = self.windows(span)
            if not blocks or filled + windows > most:
                blocks.append([])
                filled = 0
            blocks[-1].append(span)
            filled += windows
        return blocks

    def windows(self, span: RecordingRange) -> int:
        """Windows of the recordings of a range."""
        offsets = self.samples.split.recording_offsets
        return int(offsets[span.last] - offsets[span.first])

    def _ranges(self, low: int, high: int) -> list[RecordingRange]:
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
        return [RecordingRange(*row) for row in rows.tolist()]


def chunk_bounds(
    bytes_per_recording: Int[np.ndarray, " R"], chunk_bytes: int
) -> Int[np.ndarray, " bounds"]:
    """First recording of each chunk, then the number of recordings.

    A chunk is several recordings of about `chunk_bytes` together, or one that is larger.
    """
    before = np.cumsum(bytes_per_recording) - bytes_per_recording
    first = np.flatnonzero(np.diff(before // chunk_bytes, prepend=-1))
    return np.append(first, len(bytes_per_recording)).astype(np.int64)
