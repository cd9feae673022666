"""Level of the quiet part of a recording: what is always there, as the noise of a leak is."""

from functools import lru_cache

import numpy as np
from jaxtyping import Float, Float32

from leakdet.acoustics.dead_sound import SILENCE

FRAME_S = 0.1
MOST = 4096  # frames that are kept
SHARE = 0.1  # of the frames are quieter


class QuietLevel:
    """The 10th percentile of the levels of frames of 0.1 s, of sound that comes in blocks.

    A frame's level is its RMS about its own mean, so that an offset does not count. Frames below
    -90 dBFS hold no sound and are left out, and so is what is left over at the end. Of more
    than 4,096 frames every second one counts, of more than 8,192 every fourth, and so on.
    """

    def __init__(self, rate_hz: int) -> None:
        self._size = max(2, round(FRAME_S * rate_hz))
        self._ones = _ones(self._size)
        self._rest = np.empty(0, np.float32)
        self._power = np.empty(0)  # of every so many frames
        self._every, self._frames = 1, 0

    def add(self, sound: Float32[np.ndarray, " N"]) -> None:
        """Take the next sample points."""
        held = np.concatenate([self._rest, sound]) if len(self._rest) else sound
        count = len(held) // self._size
        self._rest = held[count * self._size :].copy()
        frames = held[: count * self._size].reshape(count, self._size)
        mean = (frames @ self._ones).astype(np.float64) / self._size
        # a product of matrices for each frame is several times as fast as a sum of squares
        squares = np.matmul(frames[:, None, :], frames[:, :, None])[:, 0, 0]
        power = squares / self._size - mean**2
        self._keep(power)
        self._frames += count

    def _keep(self, power: Float[np.ndarray, " F"]) -> None:
        """Keep the power of frames whose number is a multiple of `_every`, `MOST` at most."""
        new = power[-self._frames % self._every :: self._every]
        while len(self._power) + len(new) > MOST:
            self._every *= 2
            self._power = self._power[::2]
            new = power[-self._frames % self._every :: self._every]
        self._power = np.concatenate([self._power, new])

    def dbfs(self) -> float | None:
        """The level over a square wave of full scale; None where no frame holds sound."""
        power = self._power[self._power >= SILENCE**2]
        return low_share(10.0 * np.log10(power)) if power.size else None


@lru_cache(maxsize=16)
def _ones(size: int) -> Float32[np.ndarray, " size"]:
    return np.ones(size, np.float32)


def low_share(values: Float[np.ndarray, " N"]) -> float:
    """The 10th percentile, between two values linearly, as `np.percentile` but in no time."""
    ordered, place = np.sort(values), SHARE * (len(values) - 1)
    below = int(place)
    low, high = ordered[below], ordered[min(below + 1, len(values) - 1)]
    return float(low + (high - low) * (place - below))
