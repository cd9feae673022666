"""Which samples an epoch visits, how often, in which batches: a pure function of (seed, epoch), the same on every process."""

import numpy as np

SAMPLINGS = ("natural", "balanced", "oversampled", "curriculum")
KEYS_FROM = 1 << 20  # numbers that fill a processor's cache: more are sorted by random keys


def epoch_draws(counts: np.ndarray, sampling: str, epoch: int = 0, curriculum_epochs: int = 1) -> np.ndarray:
    """How many samples of each class the epoch draws, int64 [classes]. `counts` [classes] are those that there are.

    natural: every sample once. balanced: as many draws as there are samples, the same number of each class.
    oversampled: every class as often as the most frequent one. curriculum: balanced in epoch 0, moving linearly to the
    natural mix in epoch `curriculum_epochs`.
    """
    present = counts > 0
    if sampling == "oversampled":
        return np.where(present, counts.max(), 0)
    toward_natural = {"natural": 1.0, "balanced": 0.0}.get(sampling, min(1.0, epoch / curriculum_epochs))
    if toward_natural == 1.0:
        return counts
    even = counts.sum() / present.sum()
    wanted = np.where(present, toward_natural * counts + (1 - toward_natural) * even, 0)
    draws = np.floor(wanted).astype(np.int64)
    short = counts.sum() - draws.sum()
    draws[np.argsort(draws - wanted, kind="stable")[:short]] += 1
    return draws


def drawn_mix(counts: np.ndarray, sampling: str, epoch: int = 0, curriculum_epochs: int = 1) -> np.ndarray:
    """Share of each class among what the epoch draws, float64 [classes]."""
    draws = epoch_draws(counts, sampling, epoch, curriculum_epochs)
    return np.asarray(draws / max(1, draws.sum()))


def epoch_order(
    class_id: np.ndarray, sampling: str, seed: int, epoch: int, curriculum_epochs: int = 1
) -> np.ndarray:
    """Samples in the order of this epoch, int64 [draws]; no sample of a class again before all others of it were drawn."""
    rng = np.random.default_rng([seed, epoch])
    counts = np.bincount(class_id)
    draws = epoch_draws(counts, sampling, epoch, curriculum_epochs)
    if (draws == counts).all():
        return permutation(len(class_id), rng)
    picked = [
        _repeated(np.flatnonzero(class_id == number), count, rng)
        for number, count in enumerate(draws.tolist())
        if count
    ]
    drawn = np.concatenate(picked)
    return np.asarray(drawn[permutation(len(drawn), rng)])


def permutation(count: int, rng: np.random.Generator) -> np.ndarray:
    """0, …, count - 1 in random order, int64.

    Many are sorted by random keys, each of which shares a number with its place: a shuffle that jumps all over the memory takes
    four times as long and disturbs whoever gathers a batch meanwhile. Keys of 64 - log2 N bits hardly ever agree; where two do,
    the smaller place stays first.
    """
    if count < KEYS_FROM:
        return rng.permutation(count)
    place_bits = np.uint64((count - 1).bit_length())
    keys = rng.integers(0, 2**64 - 1, count, dtype=np.uint64, endpoint=True)
    keys <<= place_bits
    keys |= np.arange(count, dtype=np.uint64)
    keys.sort()
    keys &= np.uint64((1 << int(place_bits)) - 1)
    return keys.view(np.int64)


def _repeated(members: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """`count` draws from `members`: whole shuffled rounds, then part of one."""
    rounds = -(-count // len(members))
    return np.concatenate([rng.permutation(members) for _ in range(rounds)])[:count]


def batch_bounds(samples: int, batch_size: int, world: int = 1) -> np.ndarray:
    """Bounds [batches + 1] of the fewest batches of at most `batch_size`, their sizes differing by one at most.

    A tiny last batch would weigh as much as a full one in the optimiser; here there is none. No batch is smaller than the
    number of processes, whatever its size should be: each of them needs a part, or the others wait for it for ever.
    """
    batches = min(-(-samples // batch_size), samples // world)
    return np.arange(batches + 1, dtype=np.int64) * samples // max(1, batches)


def share_sizes(bounds: np.ndarray, rank: int, world: int) -> np.ndarray:
    """Samples of each batch that fall to `rank`, which takes every world-th: int64 [batches]."""
    return (np.diff(bounds) - rank + world - 1) // world
