"""Surrogate recordings: other noise with the same spectrum and the same distribution of amplitudes."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

# a longer recording is changed piece by piece: memory stays bounded, and slow changes stay in their place
PIECE_S = 30.0


def iaaft(
    sound: Float[np.ndarray, " N"], rng: np.random.Generator, iterations: int = 20
) -> Float[np.ndarray, " N"]:
    """Iterative amplitude-adjusted Fourier transform of a recording (Schreiber & Schmitz 1996).

    A stationary noise, which a leak is, keeps what tells it; all else about the waveform is new. The amplitudes are those of
    `sound` exactly, in another order; the spectrum's magnitude is that of `sound` as closely as `iterations` rounds bring it.
    """
    magnitude = np.abs(np.fft.rfft(sound))
    ordered = np.sort(sound)
    made = rng.permutation(sound)
    for _ in range(iterations):
        phase = np.exp(1j * np.angle(np.fft.rfft(made)))
        coloured = np.fft.irfft(magnitude * phase, n=len(sound))
        made = np.empty_like(sound)
        made[np.argsort(coloured, kind="stable")] = ordered
    return made


@dataclass(frozen=True)
class Surrogate:
    """Turns the blocks of a recording into those of its surrogate `name`; the same name gives the same sound again."""

    name: str
    sample_rate_hz: int

    def __call__(self, blocks: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """float32 blocks of any size in, pieces of 30 to 60 s out, or the whole of a shorter recording."""
        seed = int.from_bytes(hashlib.sha256(self.name.encode()).digest()[:8], "big")
        rng = np.random.default_rng(seed)
        length = int(PIECE_S * self.sample_rate_hz)
        held = np.empty(0, np.float32)
        for block in blocks:
            held = np.concatenate([held, block])
            while len(held) >= 2 * length:
                yield _made(held[:length], rng)
                held = held[length:]
        yield _made(held, rng)


def _made(sound: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return iaaft(sound.astype(np.float64), rng).astype(np.float32) if len(sound) else sound
