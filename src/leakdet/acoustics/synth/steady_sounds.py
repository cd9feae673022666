"""Steady sounds: leak, ambient noise, water use, pumps and mains hum.

Leak: S(f) ∝ x² / (1 + x²)^((2 + 7/3) / 2), x = f/f_j, f_j = St·U/d, with the Strouhal number
St = 0.2, the hole's diameter d and the jet speed U = √(2Δp/ρ). Far above f_j it falls like
f^(−7/3), as pressure fluctuations do in the inertial range of turbulence; on the way to the sensor
it loses α(f) times the distance.
"""

import numpy as np

from leakdet.acoustics.synth.places import HUM_HZ, Site, attenuation_db
from leakdet.acoustics.synth.waveforms import (
    Sound,
    Spectrum,
    coloured_noise,
    fluctuation,
    gain_at,
    harmonics,
    normalised_db,
    rms,
    slow_curve,
    smooth_curve_db,
)

STROUHAL = 0.2
WATER_KG_PER_M3 = 1000.0
SOIL = 0.4
"""Share of the pipe's colour (in dB) in ambient noise, which comes through soil and air as well."""


def jet_peak_hz(hole_mm: float, pressure_bar: float) -> float:
    """Frequency at which the turbulence of a jet is strongest: St·√(2Δp/ρ)/d."""
    speed_m_per_s = np.sqrt(2 * pressure_bar * 1e5 / WATER_KG_PER_M3)
    return float(STROUHAL * speed_m_per_s / (hole_mm * 1e-3))


def jet_db(freqs_hz: Spectrum, hole_mm: float, pressure_bar: float) -> Spectrum:
    """Shape of a leak at the hole, 0 dB of power within the leak band."""
    ratio = freqs_hz / jet_peak_hz(hole_mm, pressure_bar)
    return normalised_db(freqs_hz, 20 * np.log10(ratio) - 5 * (2 + 7 / 3) * np.log10(1 + ratio**2))


def leak_db(rng: np.random.Generator, site: Site, difficulty: float) -> tuple[Spectrum, float]:
    """Density of a leak at the sensor, before resonances, over ambient noise; its distance in m."""
    distance_m = site.leak_distance_m * float(np.exp(0.4 * rng.standard_normal()))
    pressure_bar = site.pressure_bar * float(np.exp(0.1 * rng.standard_normal()))
    source_db = site.leak_source_db + 10 * (1 - difficulty) + 3.5 * rng.standard_normal()
    shape_db = jet_db(site.freqs_hz, site.hole_mm, pressure_bar)
    loss_db = attenuation_db(site.freqs_hz, site.material, distance_m)
    return shape_db + source_db - loss_db, distance_m


def leak_sound(rng: np.random.Generator, site: Site, density_db: Spectrum, samples: int) -> Sound:
    """Gaussian noise without pauses, whose level wanders by half a decibel."""
    sound = coloured_noise(rng, site.freqs_hz, density_db + site.pipe_db + site.path_db, samples)
    return sound * fluctuation(rng, samples, site.rate_hz, size_db=0.5, step_s=0.5)


def ambient_db(rng: np.random.Generator, site: Site) -> Spectrum:
    """Density that falls by the site's slope per octave, varied a little; 0 dB in the leak band."""
    slope_db = site.ambient_slope_db + 0.5 * rng.standard_normal()
    colour_db = site.ambient_shape_db + smooth_curve_db(rng, site.freqs_hz, size_db=1.0)
    return normalised_db(site.freqs_hz, colour_db - slope_db * np.log2(site.freqs_hz / 100))


def ambient_sound(rng: np.random.Generator, site: Site, samples: int) -> Sound:
    """Noise of distant traffic, wind and machines that swells and falls."""
    density_db = ambient_db(rng, site) + SOIL * site.pipe_db + site.path_db
    sound = coloured_noise(rng, site.freqs_hz, density_db, samples)
    size_db = rng.uniform(0.5, 1.5)
    return sound * fluctuation(rng, samples, site.rate_hz, size_db, step_s=0.4)


def flow_sound(rng: np.random.Generator, site: Site, samples: int) -> Sound:
    """Water use, the hard negative: broadband as a leak, but lower, steeper (f^−3) and unsteady."""
    corner_hz = float(np.exp(rng.uniform(np.log(150), np.log(900))))
    ratio = site.freqs_hz / corner_hz
    shape_db = normalised_db(site.freqs_hz, 10 * np.log10(ratio) - 20 * np.log10(1 + ratio**2))
    density_db = shape_db + rng.uniform(-4, 7) + site.pipe_db + site.path_db
    sound = coloured_noise(rng, site.freqs_hz, density_db, samples)
    size_db, step_s = rng.uniform(1, 4), rng.uniform(0.1, 0.5)
    return sound * fluctuation(rng, samples, site.rate_hz, size_db, step_s)


def pump_sound(rng: np.random.Generator, site: Site, samples: int) -> Sound:
    """Blade rate of a pump and its harmonics; every second time the load beats slowly."""
    blade_hz = rng.uniform(40, 320)
    pitch_hz = blade_hz * (1 + 0.002 * slow_curve(rng, samples, site.rate_hz, step_s=0.3))
    order = np.arange(1.0, 25.0)
    amplitudes = np.exp(0.6 * rng.standard_normal(order.size)) * order ** -rng.uniform(0.7, 1.6)
    amplitudes = amplitudes * gain_at(site.freqs_hz, site.pipe_db + site.path_db, order * blade_hz)
    tone = harmonics(rng, pitch_hz, amplitudes, samples, site.rate_hz)
    if rng.uniform() < 0.5:
        beat = harmonics(rng, rng.uniform(0.8, 6), np.ones(1), samples, site.rate_hz)
        tone = tone * (1 + np.float32(rng.uniform(0.2, 0.8)) * beat)
    return tone / np.float32(rms(tone))


def hum_sound(rng: np.random.Generator, site: Site, samples: int) -> Sound:
    """Mains pick-up of the electronics, after the gain: a drifting 50 Hz with its harmonics."""
    detuned_hz = HUM_HZ + rng.uniform(-0.04, 0.04)
    pitch_hz = detuned_hz + 0.02 * slow_curve(rng, samples, site.rate_hz, step_s=1.0)
    level_dbfs = site.hum_dbfs + 2 * rng.standard_normal()
    hum = harmonics(rng, pitch_hz, site.hum_amplitudes, samples, site.rate_hz)
    return hum * np.float32(10 ** (level_dbfs / 20))
