"""The samples that an epoch draws, their order and batches, from (seed, epoch) alone."""

import numpy as np
from jaxtyping import Float, Int

from leakdet.config import DataConfig


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
