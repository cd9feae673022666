"""Short loud sounds of 0.05 to 0.5 s, alike in both classes: knocks, taps, traffic, speech.

They are independent of the label, so that a detector that responds to events fails.
"""

import numpy as np

from leakdet.acoustics.synth.places import Site
from leakdet.acoustics.synth.waveforms import Sound, coloured_noise, gain_at, harmonics

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
