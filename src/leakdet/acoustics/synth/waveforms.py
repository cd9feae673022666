"""Building blocks of demo sounds: coloured noise, harmonic tones, slow curves, random streams.

Spectra are one-sided power densities in dB on one coarse logarithmic grid (`grid_hz`); only
`coloured_noise` uses the fine grid of the FFT, so that a recording takes milliseconds.
"""

from enum import IntEnum

import numpy as np
import numpy.typing as npt
from scipy.fft import irfft, next_fast_len, rfftfreq

Spectrum = npt.NDArray[np.float64]
Sound = npt.NDArray[np.float32]

LOWEST_HZ = 10.0
GRID_POINTS = 384
"""About 40 per octave: the sharpest pipe resonance (Q = 25) spans more than one."""
TABLE_POINTS = 4096
BAND_HZ = (300.0, 4000.0)
"""The leak band, in which levels of sources are stated."""


class Stream(IntEnum):
    """First word of a seed's spawn key: kinds of draws share no random numbers."""

    SENSOR = 0
    SENSOR_ORDER = 1
    MATERIAL_ORDER = 2
    SITE = 3
    LABELS = 4
    BACKGROUND = 5
    LEAK = 6
    LEVEL = 7
    VISIT = 8
    NEGATIVE = 9


def stream(seed: int, kind: Stream, *position: int) -> np.random.Generator:
    """Random generator for one purpose at one position: a pure function of its arguments."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(int(kind), *position)))


def grid_hz(rate_hz: int) -> Spectrum:
    """Logarithmic frequencies, [GRID_POINTS], from 10 Hz to the Nyquist frequency."""
    return np.geomspace(LOWEST_HZ, rate_hz / 2, GRID_POINTS)


def band_power_db(freqs_hz: Spectrum, density_db: Spectrum) -> float:
    """Power of a density within `BAND_HZ` (up to Nyquist), in dB."""
    inside = (freqs_hz >= BAND_HZ[0]) & (freqs_hz <= BAND_HZ[1])
    power = np.trapezoid(10 ** (density_db[inside] / 10), freqs_hz[inside])
    return float(10 * np.log10(power))


def normalised_db(freqs_hz: Spectrum, density_db: Spectrum) -> Spectrum:
    """The same shape with 0 dB of power within `BAND_HZ`."""
    return density_db - band_power_db(freqs_hz, density_db)


def smooth_curve_db(
    rng: np.random.Generator, freqs_hz: Spectrum, size_db: float, terms: int = 5
) -> Spectrum:
    """Σ_k a_k·cos(π·k·u + φ_k), a_k ~ size·N(0, 1)/√k, u = log f scaled to 0..1, random φ_k."""
    position = np.log(freqs_hz / freqs_hz[0]) / np.log(freqs_hz[-1] / freqs_hz[0])
    order = np.arange(1, terms + 1)
    heights = size_db * rng.standard_normal(terms) / np.sqrt(order)
    phases = rng.uniform(0, 2 * np.pi, terms)
    curve: Spectrum = heights @ np.cos(np.pi * order[:, None] * position + phases[:, None])
    return curve


def coloured_noise(
    rng: np.random.Generator, freqs_hz: Spectrum, density_db: Spectrum, samples: int
) -> Sound:
    """Gaussian noise [samples] of the given one-sided power density, shaped by an inverse FFT."""
    rate_hz = 2 * freqs_hz[-1]
    n_fft = next_fast_len(samples, real=True)
    fine_hz = rfftfreq(n_fft, 1 / rate_hz)
    # E|X_k|² = S(f_k)·rate·n_fft/2, and the two unit normals of a complex bin carry 2 of it
    amplitude = np.interp(fine_hz, freqs_hz, 10 ** (density_db / 20) * np.sqrt(rate_hz * n_fft) / 2)
    amplitude[fine_hz < LOWEST_HZ] = 0
    bins = rng.standard_normal(2 * fine_hz.size, dtype=np.float32).view(np.complex64)
    sound: Sound = irfft(bins * amplitude.astype(np.float32), n_fft)[:samples]
    return sound


def slow_curve(rng: np.random.Generator, samples: int, rate_hz: int, step_s: float) -> Sound:
    """Random wander [samples]: unit-normal knots every `step_s`, linearly interpolated."""
    step = max(1, round(rate_hz * step_s))
    start = int(rng.integers(step))
    knots = rng.standard_normal(samples // step + 3, dtype=np.float32)
    ramp = np.arange(step, dtype=np.float32) / np.float32(step)
    curve: Sound = (knots[:-1, None] + np.diff(knots)[:, None] * ramp).ravel()
    return curve[start : start + samples]


def fluctuation(
    rng: np.random.Generator, samples: int, rate_hz: int, size_db: float, step_s: float
) -> Sound:
    """A slowly varying gain [samples] around 1."""
    to_log = np.float32(size_db * np.log(10) / 20)
    gain: Sound = np.exp(slow_curve(rng, samples, rate_hz, step_s) * to_log)
    return gain


def harmonics(
    rng: np.random.Generator,
    pitch_hz: float | Sound,
    amplitudes: Spectrum,
    samples: int,
    rate_hz: int,
) -> Sound:
    """Σ_k a_k·cos(k·θ(t) + φ_k) [samples], with θ' = 2π·pitch and random φ_k.

    Interpolated from a table of one period, which replaces K sines by two look-ups; the error at
    24 harmonics is below −70 dB.
    """
    bins = np.zeros(TABLE_POINTS // 2 + 1, complex)
    phases = 2j * np.pi * rng.uniform(size=amplitudes.size)
    bins[1 : amplitudes.size + 1] = amplitudes * np.exp(phases)
    table = irfft(bins * TABLE_POINTS / 2).astype(np.float32)
    steps = np.asarray(pitch_hz, np.float64) * (TABLE_POINTS / rate_hz)
    position = np.cumsum(np.broadcast_to(steps, samples))
    before = position.astype(np.intp)
    between = (position - before).astype(np.float32)
    before &= TABLE_POINTS - 1
    sound: Sound = table[before] + between * (np.roll(table, -1) - table)[before]
    return sound


def gain_at(freqs_hz: Spectrum, gain_db: Spectrum, at_hz: Spectrum) -> Spectrum:
    """Amplitude factors of a response at given frequencies; 0 from the Nyquist frequency on."""
    factors = 10 ** (np.interp(at_hz, freqs_hz, gain_db) / 20)
    return np.where(at_hz < freqs_hz[-1], factors, 0.0)


def rms(sound: Sound) -> float:
    """Root mean square."""
    return float(np.sqrt(np.mean(np.square(sound, dtype=np.float64))))
