"""One demo recording: the background of its site, for LEAK the jet on top, then the logger's gain, hum, noise and offset.

A recording is a pure function of the settings, its site and its index. Background, leak and level come from separate random
streams, so the label changes nothing but the leak, and `difficulty` changes nothing but how loud the leak is.
"""

from dataclasses import dataclass

import numpy as np

from leakdet.acoustics.synth.interference import interference
from leakdet.acoustics.synth.places import Site, draw_site
from leakdet.acoustics.synth.signals import Sound, Spectrum, Stream, band_power_db, rms, stream
from leakdet.acoustics.synth.sources import (
    ambient_db,
    ambient_sound,
    flow_sound,
    hum_sound,
    leak_db,
    leak_sound,
    pump_sound,
)
from leakdet.config import DemoConfig

LEAK = "LEAK"
NOLEAK = "NOLEAK"
FLOW_SHARE = 0.4
PUMP_SHARE = 0.25
INTERFERENCE_SHARE = 0.4
LEVEL_RANGE_DBFS = (-42.0, -21.0)
EVENT_PEAK = 0.6
"""Highest event in full scale: a logger ranges its gain so that knocks on the pipe do not clip."""


@dataclass(frozen=True)
class DemoRecording:
    """Samples (float32 in [-1, 1], [N]) and everything that is known about them.

    `leak_to_noise_db` compares leak and ambient noise at the sensor within 300 to 4000 Hz; None without a leak.
    """

    samples: Sound
    sample_rate_hz: int
    label: str
    site_id: str
    sensor_id: str
    material: str
    leak_distance_m: float | None
    leak_to_noise_db: float | None
    background: tuple[str, ...]
    interference: tuple[str, ...]


def is_leak(demo: DemoConfig, site: int, index: int) -> bool:
    """Labels in pairs of neighbours, shuffled inside the pair: every prefix of a site keeps `leak_fraction` to within one recording."""
    pair, place = divmod(index, 2)
    start = stream(demo.seed, Stream.LABELS, site).uniform()
    before, after = (int(np.floor(2 * demo.leak_fraction * edge + start)) for edge in (pair, pair + 1))
    order = stream(demo.seed, Stream.LABELS, site, pair).permutation(2)
    return bool(order[place] < after - before)


def _background(
    rng: np.random.Generator, site: Site, samples: int
) -> tuple[Sound, Spectrum, tuple[str, ...]]:
    """What the pipe carries without a leak, its ambient density, and the names of what was added to it."""
    density_db = ambient_db(rng, site)
    sound = ambient_sound(rng, site, density_db, samples)
    names = []
    if rng.uniform() < FLOW_SHARE:
        sound = sound + flow_sound(rng, site, samples)
        names.append("flow")
    if rng.uniform() < PUMP_SHARE:
        sound = sound + np.float32(rms(sound) * 10 ** (rng.uniform(-22, -6) / 20)) * pump_sound(
            rng, site, samples
        )
        names.append("pump")
    return sound, density_db, tuple(names)


@dataclass(frozen=True)
class _Visit:
    """What two neighbouring recordings share: nearly the same length and level.

    Neighbours usually carry opposite labels, so even chance cannot make length or level tell them apart.
    """

    length: float
    level_db: float


def _visit(seed: int, site: int, index: int) -> _Visit:
    rng = stream(seed, Stream.VISIT, site, index // 2)
    return _Visit(length=float(rng.uniform(-0.17, 0.17)), level_db=float(3 * rng.standard_normal()))


def _through_logger(rng: np.random.Generator, site: Site, visit: _Visit, pipe: Sound, events: Sound) -> Sound:
    """Gain ranged to a level that is drawn without regard to the label, then the logger's own hum, noise and offset."""
    level_dbfs = np.clip(site.level_dbfs + visit.level_db + rng.standard_normal(), *LEVEL_RANGE_DBFS)
    gain = np.float32(10 ** (level_dbfs / 20))
    loudest = max(float(np.abs(events).max()) * gain, 1e-12)
    sound = pipe * (gain / np.float32(rms(pipe))) + events * (
        gain * np.float32(min(1.0, EVENT_PEAK / loudest))
    )
    floor = rng.standard_normal(pipe.size, dtype=np.float32) * np.float32(10 ** (site.sensor.floor_dbfs / 20))
    offset = site.sensor.offset + 5e-4 * rng.standard_normal()
    whole = sound + hum_sound(rng, site, pipe.size) + floor + np.float32(offset)
    return np.clip(whole, -1, 1)


def demo_recording(demo: DemoConfig, site: int, index: int) -> DemoRecording:
    """Recording `index` of site `site`; unchanged by how many sites and recordings `demo` asks for.

    Shape: samples [N], N within ±20 % of `duration_s`·`sample_rate_hz`.
    """
    place = draw_site(demo.seed, site, demo.sample_rate_hz)
    rng = stream(demo.seed, Stream.BACKGROUND, site, index)
    visit = _visit(demo.seed, site, index)
    length = 1 + visit.length + rng.uniform(-0.03, 0.03)
    samples = max(1, round(demo.duration_s * length * demo.sample_rate_hz))
    pipe, ambient_density_db, background = _background(rng, place, samples)
    events, kinds = np.zeros(samples, np.float32), tuple[str, ...]()
    if rng.uniform() < INTERFERENCE_SHARE:
        events, kinds = interference(rng, place, samples)
    leak = is_leak(demo, site, index)
    distance_m = ratio_db = None
    if leak:
        leak_rng = stream(demo.seed, Stream.LEAK, site, index)
        density_db, distance_m = leak_db(leak_rng, place, demo.difficulty)
        ratio_db = band_power_db(place.freqs_hz, density_db) - band_power_db(
            place.freqs_hz, ambient_density_db
        )
        pipe = pipe + leak_sound(leak_rng, place, density_db, samples)
    return DemoRecording(
        samples=_through_logger(stream(demo.seed, Stream.LEVEL, site, index), place, visit, pipe, events),
        sample_rate_hz=demo.sample_rate_hz,
        label=LEAK if leak else NOLEAK,
        site_id=place.site_id,
        sensor_id=place.sensor.sensor_id,
        material=place.material.name,
        leak_distance_m=distance_m,
        leak_to_noise_db=ratio_db,
        background=background,
        interference=kinds,
    )
