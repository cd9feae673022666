"""Surrogate recordings: other noise of the same spectrum and amplitude distribution."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

# longer recordings are transformed in pieces: bounded memory, and slow changes stay in place
SURROGATE_PIECE_S = 30.0


def iaaft(
    sound: Float[np.ndarray, " N"], rng: np.random.Generator, iterations: int = 20
) -> Float[np.ndarray, " N"]:
    """Iterative amplitude-adjusted Fourier transform (Schreiber & Schmitz 1996).

    The result has the values of `sound` in another order, and nearly its magnitude spectrum. What
    characterises stationary noise, which a leak is, stays; the rest of the waveform is new.
    """
    magnitude = np.abs(np.fft.rfft(sound))
    ordered = np.sort(sound)
    surrogate = rng.permutation(sound)
    for _ in range(iterations):
        phase = np.exp(1j * np.angle(np.fft.rfft(surrogate)))
        coloured = np.fft.irfft(magnitude * phase, n=len(sound))
        surrogate = np.empty_like(sound)
        surrogate[np.argsort(coloured, kind="stable")] = ordered
    return surrogate


@dataclass(frozen=True)
class SurrogateTransform:
    """Turns the blocks of a recording into those of its surrogate; `name` seeds the noise."""

    name: str
    sample_rate_hz: int

    def __call__(self, blocks: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """Take float32 blocks of any size; yield pieces of 30 to 60 s, or one if it is shorter."""
        seed = int.from_bytes(hashlib.sha256(self.name.encode()).digest()[:8], "big")
        rng = np.random.default_rng(seed)
        length = int(SURROGATE_PIECE_S * self.sample_rate_hz)
        pending = np.empty(0, np.float32)
        for block in blocks:
            pending = np.concatenate([pending, block])
            while len(pending) >= 2 * length:
                yield _surrogate_of(pending[:length], rng)
                pending = pending[length:]
        yield _surrogate_of(pending, rng)


def _surrogate_of(sound: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return iaaft(sound.astype(np.float64), rng).astype(np.float32) if len(sound) else sound
