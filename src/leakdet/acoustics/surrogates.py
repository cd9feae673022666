"""Surrogate recordings: other noise with the same spectrum and the same distribution of amplitudes."""

import numpy as np
from jaxtyping import Float


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
