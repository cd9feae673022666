"""Mains hum: how far 50 or 60 Hz and their harmonics stand out of a recording, measured on the sound as it was recorded."""

from functools import lru_cache

import numpy as np
from jaxtyping import Float

MAINS_HZ = (50.0, 60.0)
HARMONICS = 4
PIECE_S = 4.0  # of sound under one window, which tells tones of a quarter of a hertz apart
COARSE_RATE_HZ = (
    4000  # enough for the highest harmonic; the mean over neighbours keeps what folds back 24 dB down
)
ON_HZ, BESIDE_HZ = 1.0, (3.0, 8.0)  # distance from a harmonic: hum, and what it is compared with


class MainsHum:
    """Sums the spectrum of a recording up to the last harmonic, piece after piece, in bounded memory."""

    def __init__(self, rate_hz: int) -> None:
        self._step = max(1, int(rate_hz // COARSE_RATE_HZ))
        self._rate_hz = rate_hz / self._step
        self._size = max(2, int(PIECE_S * self._rate_hz))
        self._hz = np.fft.rfftfreq(self._size, 1.0 / self._rate_hz)
        self._hz = self._hz[self._hz <= MAINS_HZ[-1] * HARMONICS + BESIDE_HZ[1]]
        self._power = np.zeros(len(self._hz))
        self._mean = np.full(self._step, 1.0 / self._step, np.float32)

    def add(self, sound: Float[np.ndarray, " N"]) -> None:
        """Hear the next samples, at most `PIECE_S` at a time; what is shorter weighs as much less."""
        count = len(sound) // self._step
        pieces = sound[: count * self._step].reshape(count, self._step).astype(np.float32, copy=False)
        coarse = (pieces @ self._mean)[: self._size]
        spectrum = np.fft.rfft(coarse * _hann(len(coarse)), n=self._size)[: len(self._hz)]
        self._power += np.abs(spectrum) ** 2

    def over_neighbours_db(self, mains_hz: float) -> float:
        """Mean power within 1 Hz of the harmonics over that of 3 to 8 Hz beside them; 0 dB where the rate holds none."""
        distance = np.abs(self._hz[:, None] - mains_hz * np.arange(1, HARMONICS + 1)).min(axis=1)
        on = self._power[distance <= ON_HZ]
        beside = self._power[(distance >= BESIDE_HZ[0]) & (distance <= BESIDE_HZ[1])]
        if not on.size or not beside.size:
            return 0.0
        return float(10.0 * np.log10((on.mean() + 1e-20) / (beside.mean() + 1e-20)))


@lru_cache(maxsize=16)  # recordings of a set have few lengths, and a window costs more than its spectrum
def _hann(size: int) -> Float[np.ndarray, " size"]:
    return np.hanning(size).astype(np.float32)


def mains_hum_db(sound: Float[np.ndarray, " N"], rate_hz: int) -> tuple[float, ...]:
    """`over_neighbours_db` of a whole recording for each of `MAINS_HZ`."""
    hum = MainsHum(rate_hz)
    piece = int(PIECE_S * rate_hz)
    for start in range(0, len(sound), piece):
        hum.add(sound[start : start + piece])
    return tuple(hum.over_neighbours_db(mains) for mains in MAINS_HZ)
