"""Demo recordings: a site's background, a leak, the logger; as WAV files with a manifest.

A recording is a pure function of the settings, its site and its index. Background, leak and level
have separate random streams: the label changes only the leak, `difficulty` only the leak's level.
"""

import csv
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from leakdet.acoustics.synth.sounds import (
    Site,
    ambient_sound,
    draw_site,
    flow_sound,
    hum_sound,
    interference,
    leak_db,
    leak_sound,
    pump_sound,
    site_name,
)
from leakdet.acoustics.synth.waveforms import Sound, Stream, band_power_db, rms, stream
from leakdet.config import DemoConfig

LEAK = "LEAK"
NOLEAK = "NOLEAK"
FLOW_SHARE = 0.4
PUMP_SHARE = 0.25
INTERFERENCE_SHARE = 0.4
LEVEL_RANGE_DBFS = (-42.0, -21.0)
EVENT_PEAK = 0.6
"""Of full scale: a logger sets its gain so that knocks on the pipe do not clip."""


@dataclass(frozen=True)
class DemoRecording:
    """Sample points (float32 in [-1, 1], [N]) and everything that is known about them.

    `leak_to_noise_db` compares leak and ambient noise at the sensor (before resonances) within 300
    to 4000 Hz; both leak fields are None without a leak. `background` and `interference` name what
    was added to ambient noise.
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
    """True if this recording is a leak; labels are dealt to pairs of neighbours.

    The first n recordings of a site keep `leak_fraction` to within two recordings, for every n.
    """
    pair, place = divmod(index, 2)
    start = stream(demo.seed, Stream.LABELS, site).uniform()
    before, after = (
        int(np.floor(2 * demo.leak_fraction * edge + start)) for edge in (pair, pair + 1)
    )
    order = stream(demo.seed, Stream.LABELS, site, pair).permutation(2)
    return bool(order[place] < after - before)


def _background(
    rng: np.random.Generator, site: Site, samples: int
) -> tuple[Sound, tuple[str, ...]]:
    """Sound in the pipe without a leak, [samples], and the names of what adds to ambient noise."""
    sound = ambient_sound(rng, site, samples)
    names = []
    if rng.uniform() < FLOW_SHARE:
        sound = sound + flow_sound(rng, site, samples)
        names.append("flow")
    if rng.uniform() < PUMP_SHARE:
        height = np.float32(rms(sound) * 10 ** (rng.uniform(-22, -6) / 20))
        sound = sound + height * pump_sound(rng, site, samples)
        names.append("pump")
    return sound, tuple(names)


@dataclass(frozen=True)
class _Visit:
    """Length and level that two neighbouring recordings nearly share.

    Neighbours usually have opposite labels, so that length and level cannot correlate with them.
    """

    length: float
    level_db: float


def _visit(seed: int, site: int, index: int) -> _Visit:
    rng = stream(seed, Stream.VISIT, site, index // 2)
    return _Visit(length=float(rng.uniform(-0.17, 0.17)), level_db=float(3 * rng.standard_normal()))


def _through_logger(
    rng: np.random.Generator, site: Site, visit: _Visit, pipe: Sound, events: Sound
) -> Sound:
    """Set the gain to a level independent of the label; add the logger's hum, noise and offset."""
    level_dbfs = site.level_dbfs + visit.level_db + rng.standard_normal()
    gain = float(10 ** (np.clip(level_dbfs, *LEVEL_RANGE_DBFS) / 20))
    loudest = max(float(np.abs(events).max()), 1e-12)
    events_gain = np.float32(min(gain, EVENT_PEAK / loudest))
    sound = pipe * np.float32(gain / rms(pipe)) + events * events_gain
    floor = np.float32(10 ** (site.sensor.floor_dbfs / 20))
    sound += floor * rng.standard_normal(pipe.size, dtype=np.float32)
    sound += hum_sound(rng, site, pipe.size)
    sound += np.float32(site.sensor.offset + 5e-4 * rng.standard_normal())
    np.clip(sound, -1, 1, out=sound)
    return sound


def demo_recording(demo: DemoConfig, site: int, index: int) -> DemoRecording:
    """Synthesise recording `index` of site `site`, whatever number of them `demo` asks for.

    Its length is within ±20 % of `duration_s`.
    """
    place = draw_site(demo.seed, site, demo.sample_rate_hz)
    rng = stream(demo.seed, Stream.BACKGROUND, site, index)
    visit = _visit(demo.seed, site, index)
    length = 1 + visit.length + rng.uniform(-0.03, 0.03)
    samples = max(1, round(demo.duration_s * length * demo.sample_rate_hz))
    pipe, background = _background(rng, place, samples)
    events, kinds = np.zeros(samples, np.float32), tuple[str, ...]()
    if rng.uniform() < INTERFERENCE_SHARE:
        events, kinds = interference(rng, place, samples)
    logger_rng = stream(demo.seed, Stream.LEVEL, site, index)
    leak = is_leak(demo, site, index)
    distance_m = ratio_db = None
    if leak:
        leak_rng = stream(demo.seed, Stream.LEAK, site, index)
        density_db, distance_m = leak_db(leak_rng, place, demo.difficulty)
        # ambient noise has 0 dB in this band
        ratio_db = band_power_db(place.freqs_hz, density_db)
        pipe = pipe + leak_sound(leak_rng, place, density_db, samples)
    return DemoRecording(
        samples=_through_logger(logger_rng, place, visit, pipe, events),
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


COLUMNS = ("path", "label", "site", "sensor", "material")


def _write_recording(folder: Path, demo: DemoConfig, site: int, index: int) -> dict[str, str]:
    """Write one file and return its row of the manifest; its name does not give the label away."""
    recording = demo_recording(demo, site, index)
    path = folder / "audio" / site_name(site) / f"{index:04d}.wav"
    pcm = np.clip(np.rint(recording.samples * 32768), -32768, 32767).astype(np.int16)
    soundfile.write(path, pcm, recording.sample_rate_hz, subtype="PCM_16", format="WAV")
    values = (
        path.relative_to(folder).as_posix(),
        recording.label,
        recording.site_id,
        recording.sensor_id,
        recording.material,
    )
    return dict(zip(COLUMNS, values, strict=True))


def write_demo(
    folder: Path, demo: DemoConfig, progress: Callable[[int, int], None] | None = None
) -> Path:
    """Write all recordings under `folder` and return the path of the manifest.

    `progress(done, total)` is called in the caller's thread. The manifest is removed before any
    audio changes and written last, atomically: a folder with a manifest is complete.
    """
    manifest = folder / "manifest.csv"
    manifest.unlink(missing_ok=True)
    for site in range(demo.sites):
        (folder / "audio" / site_name(site)).mkdir(parents=True, exist_ok=True)
    jobs = [
        (site, index) for site in range(demo.sites) for index in range(demo.recordings_per_site)
    ]
    # threads suffice: FFT, ufuncs and libsndfile release the interpreter lock
    with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
        futures = [pool.submit(_write_recording, folder, demo, *job) for job in jobs]
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                future.result()
                if progress is not None:
                    progress(done, len(jobs))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    partial = folder / f".manifest-{os.getpid()}.csv"
    with partial.open("w", newline="", encoding="utf-8") as file:
        rows = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        rows.writeheader()
        rows.writerows(future.result() for future in futures)
    partial.replace(manifest)
    return manifest
