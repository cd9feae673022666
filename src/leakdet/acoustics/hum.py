"""Mains hum: how far 50 or 60 Hz and their harmonics stand out of a recording at its own rate."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float

MAINS_HZ = (50.0, 60.0)
HARMONICS = 4
PIECE_S = 4.0  # of sound per spectrum, which resolves a quarter of a hertz
ON_HZ, BESIDE_HZ = 1.0, (3.0, 8.0)  # distances from a harmonic: of hum, and of its reference
# block averages down to this rate attenuate what aliases onto a harmonic by 24 dB
MEAN_RATE_HZ = 4000
COARSE_RATE_HZ = 1000  # binomial filters of five taps, decimating by two, down to here: 33 dB


class MainsHum:
    """Accumulates the power spectrum of a recording up to the last harmonic, in bounded memory."""

    def __init__(self, rate_hz: int) -> None:
        self._plan = _plan(rate_hz)
        self._power = np.zeros(self._plan.bins)

    def add(self, sound: Float[np.ndarray, " N"]) -> None:
        """Add the next sample points, at most `PIECE_S` of them; a shorter piece weighs less."""
        plan = self._plan
        coarse = plan.decimate(sound)[: plan.size]
        spectrum = np.fft.rfft(coarse * _hann(len(coarse)), n=plan.size)[: plan.bins]
        self._power += np.abs(spectrum / plan.gain) ** 2

    def prominence_db(self, mains_hz: float) -> float:
        """Mean power within 1 Hz of the harmonics over that 3 to 8 Hz beside them, in dB.

        0 dB where the recording's rate is too low for any harmonic.
        """
        on, beside = (self._power[bins] for bins in self._plan.masks[mains_hz])
        if not on.size or not beside.size:
            return 0.0
        return float(10.0 * np.log10((on.mean() + 1e-20) / (beside.mean() + 1e-20)))


@dataclass(frozen=True)
class _Plan:
    """The parts that depend on the rate alone: decimation, and the bins to compare."""

    step: int  # sample points in a block average
    halvings: int  # decimations by two after it
    size: int  # of the FFT, in decimated sample points
    bins: int  # kept: up to the last harmonic and its reference
    gain: Float[np.ndarray, " bins"]  # of the decimations by two
    masks: dict[float, tuple[Bool[np.ndarray, " bins"], Bool[np.ndarray, " bins"]]]

    def decimate(self, sound: Float[np.ndarray, " N"]) -> Float[np.ndarray, " M"]:
        count = len(sound) // self.step
        blocks = sound[: count * self.step].reshape(count, self.step)
        weights = np.full(self.step, 1.0 / self.step, np.float32)
        thin = blocks.astype(np.float32, copy=False) @ weights
        for _ in range(self.halvings):
            even, odd = thin[0::2], thin[1::2]
            most = max(0, min(len(even) - 2, len(odd) - 1))
            inner = 6.0 * even[1 : 1 + most] + 4.0 * (odd[:most] + odd[1 : 1 + most])
            thin = (even[:most] + inner + even[2 : 2 + most]) / np.float32(16.0)
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
    masks, slack = {}, 0.4 / PIECE_S  # of a bin: at odd rates bins miss whole hertz by a little
    for mains_hz in MAINS_HZ:
        distance = np.abs(hz[:, None] - mains_hz * np.arange(1, HARMONICS + 1)).min(axis=1)
        beside = (distance >= BESIDE_HZ[0] - slack) & (distance <= BESIDE_HZ[1] + slack)
        masks[mains_hz] = (distance <= ON_HZ + slack, beside)
    return _Plan(step, halvings, size, len(hz), gain, masks)


# cached because making a window takes longer than the FFT, and a data set has few lengths
@lru_cache(maxsize=16)
def _hann(size: int) -> Float[np.ndarray, " size"]:
    return np.hanning(size).astype(np.float32)
