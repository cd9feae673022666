"""Mains hum: how far 50 or 60 Hz and their harmonics stand out of a recording at its own rate."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float, Float32

MAINS_HZ = (50.0, 60.0)
HARMONICS = 4
FEWEST_S = 1.0  # of sound; of less, hum is as wide as what it is compared with
PIECE_S = 4.0  # of sound per spectrum, which resolves a quarter of a hertz
ON_HZ, BESIDE_HZ = 1.0, (3.0, 8.0)  # distances from a harmonic: of hum, and of its reference
# block averages down to this rate attenuate what aliases onto a harmonic by 24 dB
MEAN_RATE_HZ = 4000
BINOMIAL = np.array([1.0, 4.0, 6.0, 4.0, 1.0]) / 16.0
COARSE_RATE_HZ = 1000  # binomial filters of five taps, decimating by two, down to here: 33 dB


class MainsHum:
    """Accumulates the power spectrum of a recording up to the last harmonic, in bounded memory."""

    def __init__(self, rate_hz: int) -> None:
        self._plan = _plan(rate_hz)
        self._power = np.zeros(self._plan.bins)
        self._samples, self._fewest = 0, FEWEST_S * rate_hz

    def add(self, sound: Float[np.ndarray, " N"]) -> None:
        """Add the next sample points, at most `PIECE_S` of them; a shorter piece weighs less."""
        plan = self._plan
        self._samples += len(sound)
        coarse = plan.decimate(sound)[: plan.size]
        spectrum = np.fft.rfft(coarse * _hann(len(coarse)), n=plan.size)[: plan.bins]
        self._power += spectrum.real**2
        self._power += spectrum.imag**2

    def prominences_db(self) -> tuple[float, ...]:
        """Of each of `MAINS_HZ`: mean power within 1 Hz of its harmonics over that 3 to 8 Hz away.

        In dB; 0 dB where the recording's rate is too low for any harmonic.
        """
        on, beside = (self._plan.weights @ self._power).reshape(-1, 2).T
        return tuple((10.0 * np.log10((on + 1e-20) / (beside + 1e-20))).tolist())

    def strongest_db(self) -> float | None:
        """The prominence of the mains that stands out more.

        None where it cannot be told: of less than a second, of silence, or at too low a rate.
        """
        silent = not self._power.any()
        if silent or self._samples < self._fewest or not self._plan.weights.any(axis=1).all():
            return None
        return max(self.prominences_db())


@dataclass(frozen=True)
class _Plan:
    """The parts that depend on the rate alone: decimation, and the bins to compare."""

    kernel: Float32[np.ndarray, "D C"]  # filter of the decimation by D, column after column
    size: int  # of the FFT, in decimated sample points
    bins: int  # kept: up to the last harmonic and its reference
    weights: Float[np.ndarray, "F bins"]  # of mean power: for each mains on it, and beside it

    def decimate(self, sound: Float[np.ndarray, " N"]) -> Float[np.ndarray, " M"]:
        step, columns = self.kernel.shape
        count = len(sound) // step
        blocks = sound[: count * step].astype(np.float32, copy=False).reshape(count, step)
        parts = blocks @ self.kernel  # one product is faster than filters one after the other
        most = max(0, count - columns + 1)
        thin: np.ndarray = parts[:most, 0].copy()
        for column in range(1, columns):
            thin += parts[column : column + most, column]
        return thin


@lru_cache(maxsize=16)
def _plan(rate_hz: int) -> _Plan:
    step = max(1, int(rate_hz // MEAN_RATE_HZ))
    halvings = max(0, int(np.log2(rate_hz / step / COARSE_RATE_HZ)))
    coarse_hz = rate_hz / step / 2**halvings
    size = max(2, int(PIECE_S * coarse_hz))
    hz = np.fft.rfftfreq(size, 1.0 / coarse_hz)
    hz = hz[hz <= MAINS_HZ[-1] * HARMONICS + BESIDE_HZ[1]]
    gain = np.ones(len(hz))
    for halving in range(halvings):
        gain *= np.cos(np.pi * hz * step * 2**halving / rate_hz) ** 4
    weights, slack = [], 0.4 / PIECE_S  # of a bin: at odd rates bins miss whole hertz by a little
    for mains_hz in MAINS_HZ:
        distance = np.abs(hz[:, None] - mains_hz * np.arange(1, HARMONICS + 1)).min(axis=1)
        beside = (distance >= BESIDE_HZ[0] - slack) & (distance <= BESIDE_HZ[1] + slack)
        both = (distance <= ON_HZ + slack, beside)
        weights += [chosen / gain**2 / max(1, chosen.sum()) for chosen in both]
    return _Plan(_decimation(step, halvings), size, len(hz), np.stack(weights))


def _decimation(step: int, halvings: int) -> Float32[np.ndarray, "D C"]:
    """Means of `step` points, then binomial filters of five taps that decimate by two."""
    kernel = np.ones(1)
    for halving in reversed(range(halvings)):
        spread = np.zeros(4 * 2**halving + 1)
        spread[:: 2**halving] = BINOMIAL
        kernel = np.convolve(kernel, spread)
    kernel = np.repeat(kernel, step) / step
    columns = -(-len(kernel) // (step * 2**halvings))
    padded = np.zeros(columns * step * 2**halvings, np.float32)
    padded[: len(kernel)] = kernel
    return padded.reshape(columns, -1).T.copy()


# cached because making a window takes longer than the FFT, and a data set has few lengths
@lru_cache(maxsize=16)
def _hann(size: int) -> Float[np.ndarray, " size"]:
    return np.hanning(size).astype(np.float32)
