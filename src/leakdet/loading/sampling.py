"""Which samples an epoch draws, how often, in which order and batches: a function of (seed, epoch) alone."""

import numpy as np
from jaxtyping import Float, Int

from leakdet.config import DataConfig
from leakdet.loading.permutation import Shuffle


def epoch_draws(
    counts: Int[np.ndarray, " C"], data: DataConfig, epoch: int = 0
) -> Int[np.ndarray, " C"]:
    """How many samples of each class the epoch draws, where the split has `counts`.

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
    """The epoch's samples in its order. The samples of a class come equally often, or differ by one.

    `size_of_recording` are its samples, which are numbered recording after recording.
    """
    rng = np.random.default_rng([seed, epoch])
    counts = np.bincount(class_of_recording, size_of_recording).astype(np.int64)
    draws = epoch_draws(counts, data, epoch)
    order = Shuffle(int(draws.sum()), rng).at(np.arange(draws.sum()))
    if (draws == counts).all():
        return order  # every sample once
    class_of_sample = np.repeat(class_of_recording, size_of_recording)
    drawn = []
    for number, count in enumerate(draws.tolist()):
        members = np.flatnonzero(class_of_sample == number)
        shuffled = members[Shuffle(len(members), rng).at(np.arange(len(members)))]
        drawn.append(np.resize(shuffled, count))
    return np.asarray(np.concatenate(drawn)[order])


def batch_bounds(samples: int, batch_size: int, world: int = 1) -> Int[np.ndarray, " bounds"]:
    """Bounds of the fewest batches of at most `batch_size`, whose sizes differ by one at most.

    A tiny last batch would weigh as much as a full one in the optimiser; here there is none. No
    batch is smaller than `world`: each process needs a part of it, or the others wait for ever.
    """
    batches = min(-(-samples // batch_size), samples // world)
    return np.arange(batches + 1, dtype=np.int64) * samples // max(1, batches)


def share_sizes(
    bounds: Int[np.ndarray, " bounds"], rank: int, world: int
) -> Int[np.ndarray, " batches"]:
    """Samples of each batch that `rank` gets: every world-th."""
    return np.asarray((np.diff(bounds) - rank + world - 1) // world)
