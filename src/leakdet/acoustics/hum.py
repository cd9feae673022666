"""Mains hum: how far 50 or 60 Hz and their harmonics stand out of a recording, measured on the sound as it was recorded."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float

MAINS_HZ = (50.0, 60.0)
HARMONICS = 4
PIECE_S = 4.0  # of sound under one window, which tells tones of a quarter of a hertz apart
ON_HZ, BESIDE_HZ = 1.0, (3.0, 8.0)  # distance from a harmonic: hum, and what it is compared with
# the mean over neighbours down to here keeps what folds onto a harmonic 24 dB down
MEAN_RATE_HZ = 4000
COARSE_RATE_HZ = 1000  # binomial means of five, every second one, down to here: 33 dB


class MainsHum:
    """Sums the spectrum of a recording up to the last harmonic, piece after piece, in bounded memory."""

    def __init__(self, rate_hz: int) -> None:
        self._plan = _plan(rate_hz)
        self._power = np.zeros(self._plan.bins)

    def add(self, sound: Float[np.ndarray, " N"]) -> None:
        """Hear the next samples, at most `PIECE_S` at a time; what is shorter weighs as much less."""
        plan = self._plan
        coarse = plan.coarse(sound)[: plan.size]
        spectrum = np.fft.rfft(coarse * _hann(len(coarse)), n=plan.size)[: plan.bins]
        self._power += np.abs(spectrum / plan.gain) ** 2

    def over_neighbours_db(self, mains_hz: float) -> float:
        """Mean power within 1 Hz of the harmonics over that of 3 to 8 Hz beside them; 0 dB where the rate holds none."""
        on, beside = (self._power[where] for where in self._plan.places[mains_hz])
        if not on.size or not beside.size:
            return 0.0
        return float(10.0 * np.log10((on.mean() + 1e-20) / (beside.mean() + 1e-20)))


@dataclass(frozen=True)
class _Plan:
    """What depends on the rate alone: how sound is thinned, and where its spectrum is looked at."""

    step: int  # neighbours in a mean
    halvings: int  # after it
    size: int  # of the spectrum, in samples after both
    bins: int  # of it up to the last harmonic and what lies beside it
    gain: Float[np.ndarray, " bins"]  # of the halvings, which take from the higher harmonics
    places: dict[float, tuple[Bool[np.ndarray, " bins"], Bool[np.ndarray, " bins"]]]

    def coarse(self, sound: Float[np.ndarray, " N"]) -> Float[np.ndarray, " M"]:
        count = len(sound) // self.step
        means = np.full(self.step, 1.0 / self.step, np.float32)
        thin = (
            sound[: count * self.step].reshape(count, self.step).astype(np.float32, copy=False)
            @ means
        )
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
    places, slack = {}, 0.4 / PIECE_S  # of a bin: at odd rates bins lie not quite on whole hertz
    for mains_hz in MAINS_HZ:
        distance = np.abs(hz[:, None] - mains_hz * np.arange(1, HARMONICS + 1)).min(axis=1)
        beside = (distance >= BESIDE_HZ[0] - slack) & (distance <= BESIDE_HZ[1] + slack)
        places[mains_hz] = (distance <= ON_HZ + slack, beside)
    return _Plan(step, halvings, size, len(hz), gain, places)


# recordings of a set have few lengths, and a window costs more than its spectrum
@lru_cache(maxsize=16)
def _hann(size: int) -> Float[np.ndarray, " size"]:
    return np.hanning(size).astype(np.float32)


def mains_hum_db(sound: Float[np.ndarray, " N"], rate_hz: int) -> tuple[float, ...]:
    """`over_neighbours_db` of a whole recording for each of `MAINS_HZ`."""
    hum = MainsHum(rate_hz)
    piece = int(PIECE_S * rate_hz)
    for start in range(0, len(sound), piece):
        hum.add(sound[start : start + piece])
    return tuple(hum.over_neighbours_db(mains) for mains in MAINS_HZ)
