"""Several channels to one: their mean, the first, or the loudest of the recording."""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float32

# the mean of channels that have nothing in common has 1/channels of their mean power; a tenth of
# that is left only where they cancel each other
CANCEL_POWER = 0.1


class ChannelMix:
    """Mixes blocks [N, C] down to channel `pick` or the mean of all, and notices cancellation."""

    def __init__(self, channels: int, pick: int | None) -> None:
        self._channels, self._pick = channels, 0 if channels == 1 else pick
        self._own_power = self._mean_power = 0.0

    def __call__(self, block: Float32[np.ndarray, "N C"]) -> Float32[np.ndarray, " N"]:
        if self._pick is not None:
            return np.ascontiguousarray(block[:, self._pick])
        mean = np.ascontiguousarray(block.mean(axis=1))
        own = block - block.mean(axis=0)
        self._own_power += float(np.square(own).sum()) / self._channels
        self._mean_power += float(np.square(own.mean(axis=1)).sum())
        return mean

    @property
    def cancels(self) -> bool:
        """True if channels, in opposite phase, cancelled each other in the mean."""
        return self._mean_power < CANCEL_POWER * self._own_power / self._channels


def loudest_channel(blocks: Iterable[Float32[np.ndarray, "_ C"]]) -> int:
    """The channel with the greatest power, leaving out its offset; the first of equals."""
    count, sums, squares = 0, np.zeros(1), np.zeros(1)
    for block in blocks:
        count += len(block)
        sums = sums + block.sum(axis=0, dtype=np.float64)
        squares = squares + np.square(block, dtype=np.float64).sum(axis=0)
    return int(np.argmax(squares - sums**2 / max(1, count)))
