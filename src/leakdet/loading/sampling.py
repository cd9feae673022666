"""Which samples an epoch visits, how often, in which batches: a pure function of (seed, epoch), the same on every process."""

from collections.abc import Sequence

import numpy as np

from leakdet.loading.permutation import Shuffle

SAMPLINGS = ("natural", "balanced", "oversampled", "curriculum")


def epoch_draws(
    counts: np.ndarray, sampling: str, epoch: int = 0, curriculum_epochs: int = 1
) -> np.ndarray:
    """How many samples of each class the epoch draws, int64 [classes]. `counts` [classes] are those that there are.

    natural: every sample once. balanced: as many draws as there are samples, the same number of each class.
    oversampled: every class as often as the most frequent one. curriculum: balanced in epoch 0, moving linearly to the
    natural mix in epoch `curriculum_epochs`.
    """
    present = counts > 0
    if sampling == "oversampled":
        return np.where(present, counts.max(), 0)
    toward_natural = {"natural": 1.0, "balanced": 0.0}.get(
        sampling, min(1.0, epoch / curriculum_epochs)
    )
    if toward_natural == 1.0:
        return counts
    even = counts.sum() / present.sum()
    wanted = np.where(present, toward_natural * counts + (1 - toward_natural) * even, 0)
    draws = np.floor(wanted).astype(np.int64)
    short = counts.sum() - draws.sum()
    draws[np.argsort(draws - wanted, kind="stable")[:short]] += 1
    return draws


def drawn_mix(
    counts: np.ndarray, sampling: str, epoch: int = 0, curriculum_epochs: int = 1
) -> np.ndarray:
    """Share of each class among what the epoch draws, float64 [classes]."""
    draws = epoch_draws(counts, sampling, epoch, curriculum_epochs)
    return np.asarray(draws / max(1, draws.sum()))


class EpochOrder:
    """The samples of an epoch in its order, a pure function of (seed, epoch); each is computed from its place.

    The samples of a class come equally often, or differ by one. `windows_of_class` has the windows of each class, int64 [w]
    each; a window is `per_window` samples.
    """

    def __init__(
        self,
        windows_of_class: Sequence[np.ndarray],
        per_window: int,
        sampling: str,
        seed: int,
        epoch: int,
        curriculum_epochs: int = 1,
    ) -> None:
        rng = np.random.default_rng([seed, epoch])
        counts = np.array([len(windows) for windows in windows_of_class], np.int64) * per_window
        draws = epoch_draws(counts, sampling, epoch, curriculum_epochs)
        self._shuffle = Shuffle(int(draws.sum()), rng)
        self._ends = np.cumsum(draws)
        self._begins = self._ends - draws
        self._windows, self._per_window = windows_of_class, per_window
        # where each sample comes once, the number of a draw is the sample
        self._of_class = (
            [] if (draws == counts).all() else [Shuffle(int(count), rng) for count in counts]
        )

    def at(self, places: np.ndarray) -> np.ndarray:
        """The samples at these places of the epoch, int64 [n] each."""
        draw = self._shuffle.at(places)
        if not self._of_class:
            return draw
        samples = np.empty_like(draw)
        for number, members in enumerate(self._of_class):
            chosen = np.flatnonzero((self._begins[number] <= draw) & (draw < self._ends[number]))
            if len(chosen):
                member = members.at((draw[chosen] - self._begins[number]) % members.count)
                window, within = np.divmod(member, self._per_window)
                samples[chosen] = self._windows[number][window] * self._per_window + within
        return samples


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
