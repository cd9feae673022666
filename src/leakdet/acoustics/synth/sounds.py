"""Sites of demo recordings, and their sounds: leaks, pumps, hum, knocks, traffic, speech.

A site, its pipe and its logger are drawn once, so that recordings of a site share a colour that
those of other sites lack. This makes a split by site harder than a split by recording.

A leak is S(f) ∝ x² / (1 + x²)^((2 + 7/3) / 2), x = f/f_j, f_j = St·U/d, with the Strouhal number
St = 0.2, the hole's diameter d and the jet speed U = √(2Δp/ρ). Far above f_j it falls like
f^(−7/3), as pressure fluctuations do in the inertial range of turbulence; on the way to the sensor
it loses α(f) times the distance.

Knocks, taps, traffic and speech are independent of the label, so that a detector that responds to
events fails.
"""

from dataclasses import dataclass

import numpy as np

from leakdet.acoustics.synth.waveforms import (
    Sound,
    Spectrum,
    Stream,
    coloured_noise,
    fluctuation,
    gain_at,
    grid_hz,
    harmonics,
    normalised_db,
    rms,
    slow_curve,
    smooth_curve_db,
    stream,
)


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


KINDS = ("knock", "tap", "traffic", "speech")


def _ringing(rng: np.random.Generator, site: Site, samples: int, decay_s: float) -> Sound:
    """The pipe's modes after a stroke: Σ a_k·e^(−t/τ_k)·sin(2π f_k t), higher ones shorter."""
    time_s = np.arange(samples) / site.rate_hz
    modes_hz = site.modes_hz * rng.uniform(0.97, 1.03, site.modes_hz.size)
    decays_s = decay_s * (modes_hz / 500) ** -0.5
    heights = rng.uniform(0.2, 1, modes_hz.size) * gain_at(site.freqs_hz, site.path_db, modes_hz)
    waves = np.exp(-time_s / decays_s[:, None]) * np.sin(2 * np.pi * modes_hz[:, None] * time_s)
    ring: Sound = (heights @ waves).astype(np.float32)
    return ring


def _knock(rng: np.random.Generator, site: Site, samples: int) -> Sound:
    return _ringing(rng, site, samples, decay_s=rng.uniform(0.02, 0.08))


def _tap(rng: np.random.Generator, site: Site, samples: int) -> Sound:
    """A few quick strokes on a fitting, unevenly spaced."""
    sound = np.zeros(samples, np.float32)
    for _ in range(int(rng.integers(2, 5))):
        start = int(rng.integers(0, max(1, samples // 2)))
        stroke = _ringing(rng, site, samples - start, decay_s=0.008)
        sound[start:] += stroke * np.float32(rng.uniform(0.4, 1))
    return sound


def _traffic(rng: np.random.Generator, site: Site, samples: int) -> Sound:
    """A passing rumble below some hundred hertz, through the soil rather than the pipe."""
    knee_hz = rng.uniform(80, 400)
    density_db = -20 * np.log10(1 + (site.freqs_hz / knee_hz) ** 2) + site.path_db
    envelope = np.hanning(samples).astype(np.float32)
    return coloured_noise(rng, site.freqs_hz, density_db, samples) * envelope


def _speech(rng: np.random.Generator, site: Site, samples: int) -> Sound:
    """A syllable: a gliding voice under three formants."""
    voice_hz = rng.uniform(90, 240)
    pitch_hz = (voice_hz * np.linspace(1, rng.uniform(0.8, 1.25), samples)).astype(np.float32)
    order = np.arange(1.0, 25.0)
    tones_hz = voice_hz * order
    formants_hz = rng.uniform([300, 900, 2200], [800, 2200, 3200])
    vowel = (1 / (1 + ((tones_hz[:, None] - formants_hz) / 120) ** 2)).sum(axis=1) / np.sqrt(order)
    vowel = vowel * gain_at(site.freqs_hz, site.path_db, tones_hz * 1.25)
    envelope = np.hanning(samples).astype(np.float32)
    return harmonics(rng, pitch_hz, vowel, samples, site.rate_hz) * envelope


def burst(rng: np.random.Generator, site: Site, kind: str, samples: int) -> Sound:
    """One event of the kind, [samples], with peak 1."""
    match kind:
        case "knock":
            sound = _knock(rng, site, samples)
        case "tap":
            sound = _tap(rng, site, samples)
        case "traffic":
            sound = _traffic(rng, site, samples)
        case "speech":
            sound = _speech(rng, site, samples)
        case _:
            raise ValueError(f"interference kind {kind!r}; known: {', '.join(KINDS)}")
    return sound / np.float32(max(np.abs(sound).max(), 1e-12))


def interference(
    rng: np.random.Generator, site: Site, samples: int
) -> tuple[Sound, tuple[str, ...]]:
    """One to six events for a recording, [samples], and their kinds.

    Each has its own peak, 6 to 24 dB above a background of RMS 1.
    """
    sound = np.zeros(samples, np.float32)
    kinds = []
    for _ in range(int(rng.integers(1, 7))):
        kind = KINDS[int(rng.integers(len(KINDS)))]
        length = min(samples, int(site.rate_hz * np.exp(rng.uniform(np.log(0.05), np.log(0.5)))))
        start = int(rng.integers(0, samples - length + 1))
        height = np.float32(10 ** (rng.uniform(6, 24) / 20))
        sound[start : start + length] += height * burst(rng, site, kind, length)
        kinds.append(kind)
    return sound, tuple(sorted(set(kinds)))
