"""Sites of demo recordings: the pipe, the logger on it, and the noise of the neighbourhood.

All of it is drawn once per site (or logger), so that recordings of a site share a colour that
those of other sites lack. This makes a split by site harder than a split by recording.
"""

from dataclasses import dataclass

import numpy as np

from leakdet.acoustics.synth.waveforms import Spectrum, Stream, grid_hz, smooth_curve_db, stream


@dataclass(frozen=True)
class Material:
    """Attenuation of (fixed + per_khz·f/kHz) dB per metre; `reach_m` scales leak distances."""

    name: str
    fixed_db_per_m: float
    per_khz_db_per_m: float
    reach_m: float


# Chosen, not measured: metal carries high frequencies over tens of metres, plastic only low ones
# over a few.
MATERIALS = (
    Material("steel", 0.02, 0.04, 70.0),
    Material("cast-iron", 0.03, 0.08, 40.0),
    Material("pvc", 0.20, 0.45, 8.0),
    Material("pe", 0.30, 0.80, 5.0),
)
LOGGERS = 6
HUM_HZ = 50.0


@dataclass(frozen=True)
class Sensor:
    """A logger: smooth response, noise (dBFS over the whole band), offset (of full scale)."""

    sensor_id: str
    response_db: Spectrum
    floor_dbfs: float
    offset: float


@dataclass(frozen=True)
class Site:
    """A pipe with its surroundings.

    `pipe_db` is the response of the pipe's resonances to sound inside it; `path_db`, of mounting
    and sensor together, applies to every sound. Leak values are typical of the site; each recording
    varies about them.
    """

    site_id: str
    rate_hz: int
    freqs_hz: Spectrum
    material: Material
    sensor: Sensor
    modes_hz: Spectrum
    pipe_db: Spectrum
    path_db: Spectrum
    ambient_slope_db: float
    ambient_shape_db: Spectrum
    level_dbfs: float
    hum_dbfs: float
    hum_amplitudes: Spectrum
    leak_source_db: float
    leak_distance_m: float
    hole_mm: float
    pressure_bar: float


def site_name(site: int) -> str:
    """`site-03`."""
    return f"site-{site:02d}"


def attenuation_db(freqs_hz: Spectrum, material: Material, distance_m: float) -> Spectrum:
    """Loss over the pipe between leak and sensor: α(f)·d."""
    return (material.fixed_db_per_m + material.per_khz_db_per_m * freqs_hz / 1000) * distance_m


def resonance_db(
    freqs_hz: Spectrum, modes_hz: Spectrum, quality: Spectrum, height_db: Spectrum
) -> Spectrum:
    """Σ_k h_k / (1 + Q_k²·(f/f_k − f_k/f)²): one bump of h_k dB per mode of the pipe."""
    detune = freqs_hz / modes_hz[:, None] - modes_hz[:, None] / freqs_hz
    return height_db @ (1 / (1 + (quality[:, None] * detune) ** 2))


def dealt(seed: int, kind: Stream, position: int, choices: int) -> int:
    """Deal choices from shuffled decks of `choices` cards, so that counts differ by at most one."""
    deck, place = divmod(position, choices)
    return int(stream(seed, kind, deck).permutation(choices)[place])


def draw_sensor(seed: int, logger: int, freqs_hz: Spectrum) -> Sensor:
    """One of the shared logger models."""
    rng = stream(seed, Stream.SENSOR, logger)
    corner_hz, knee_hz = rng.uniform(15, 60), rng.uniform(5000, 10000)
    high_pass = -10 * np.log10(1 + (corner_hz / freqs_hz) ** 4)
    low_pass = -10 * np.log10(1 + (freqs_hz / knee_hz) ** 4)
    response = high_pass + low_pass + smooth_curve_db(rng, freqs_hz, size_db=1.1)
    return Sensor(
        f"logger-{logger}", response, float(rng.uniform(-66, -56)), float(rng.uniform(-3e-3, 3e-3))
    )


def draw_site(seed: int, site: int, rate_hz: int) -> Site:
    """Draw the site with this number: a pure function of seed, number and rate."""
    freqs_hz = grid_hz(rate_hz)
    sensor = draw_sensor(seed, dealt(seed, Stream.SENSOR_ORDER, site, LOGGERS), freqs_hz)
    material = MATERIALS[dealt(seed, Stream.MATERIAL_ORDER, site, len(MATERIALS))]
    rng = stream(seed, Stream.SITE, site)
    modes = int(rng.integers(4, 9))
    # one mode per equal part of the log-frequency axis: a crowd at one end would tilt the spectrum
    place = (np.arange(modes) + rng.uniform(size=modes)) / modes
    modes_hz = 200 * (min(6000, rate_hz / 2) / 200) ** place
    pipe_db = resonance_db(freqs_hz, modes_hz, rng.uniform(6, 25, modes), rng.uniform(2, 8, modes))
    order = np.arange(1, 13)
    # odd harmonics lead, as in rectifiers and saturated transformers
    hum = np.where(order % 2 == 1, 1.0, 0.4) * order ** -rng.uniform(0.8, 1.8)
    hum = hum * np.exp(0.5 * rng.standard_normal(order.size))
    hum[order * HUM_HZ >= 0.45 * rate_hz] = 0
    return Site(
        site_id=site_name(site),
        rate_hz=rate_hz,
        freqs_hz=freqs_hz,
        material=material,
        sensor=sensor,
        modes_hz=modes_hz,
        pipe_db=pipe_db,
        path_db=sensor.response_db + smooth_curve_db(rng, freqs_hz, size_db=0.8),
        ambient_slope_db=float(rng.uniform(4.5, 6.0)),
        ambient_shape_db=smooth_curve_db(rng, freqs_hz, size_db=0.8),
        level_dbfs=float(-30 + 2.5 * rng.standard_normal()),
        hum_dbfs=float(rng.uniform(-68, -42)),
        hum_amplitudes=hum * np.sqrt(2 / np.sum(hum**2)),
        leak_source_db=float(13.5 + 1.5 * rng.standard_normal()),
        leak_distance_m=float(material.reach_m * rng.uniform(0.02, 0.8)),
        hole_mm=float(rng.uniform(1.5, 5)),
        pressure_bar=float(rng.uniform(2, 6)),
    )
