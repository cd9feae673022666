"""Made-up sounds without a pipe, to train beside recordings as no leak: rain, engines, taps, wind.

A clip is a pure function of seed, number and rate. The kinds take turns. Parameters are drawn wide:
a network should learn what is no leak, not these sounds. docs/results.md has what they do.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
from scipy.signal import oaconvolve

import leakdet
from leakdet.acoustics.synth.waveforms import (
    Sound,
    Stream,
    coloured_noise,
    fluctuation,
    grid_hz,
    harmonics,
    normalised_db,
    rms,
    slow_curve,
    smooth_curve_db,
    stream,
)
from leakdet.config import SignalConfig
from leakdet.core.files import default_cache, locked, publish, require_writable, staged_folder

CLIPS = 120
CLIP_S = 5.0
LEVEL_RANGE_DBFS = (-45.0, -15.0)  # RMS
Range = tuple[float, float]
KINDS = ("rain", "engine", "tap", "wind", "waves", "noise", "modulated", "hum")


def _unit(sound: Sound) -> Sound:
    """The sound with RMS 1."""
    scaled: Sound = sound / np.float32(rms(sound))
    return scaled


@dataclass(frozen=True)
class _Clip:
    """Draws sounds [samples] of any level."""

    rng: np.random.Generator
    samples: int
    rate_hz: int

    def _between(self, low: float, high: float) -> np.float32:
        return np.float32(self.rng.uniform(low, high))

    def _spread(self, low: float, high: float) -> float:
        """A number between two, uniform in its logarithm."""
        return float(np.exp(self.rng.uniform(np.log(low), np.log(high))))

    def noise(self, low_db: float = -12.0, high_db: float = 3.0) -> Sound:
        """Steady noise of RMS 1: a slope between these dB per octave and a random smooth curve."""
        freqs_hz = grid_hz(self.rate_hz)
        slope_db = self.rng.uniform(low_db, high_db) * np.log2(freqs_hz / 100)
        curve_db = smooth_curve_db(self.rng, freqs_hz, size_db=4.0)
        density_db = normalised_db(freqs_hz, slope_db + curve_db)
        return _unit(coloured_noise(self.rng, freqs_hz, density_db, self.samples))

    def _gain(self, sizes_db: Range, steps_s: Range) -> Sound:
        size_db, step_s = self.rng.uniform(*sizes_db), self._spread(*steps_s)
        return fluctuation(self.rng, self.samples, self.rate_hz, size_db, step_s)

    def modulated(self) -> Sound:
        gain = self._gain((2.0, 9.0), (0.05, 1.0))
        return self.noise() * gain

    def _drops(self, per_s: float) -> Sound:
        """Clicks of random height, each ringing at a random one of 24 resonances, RMS 1."""
        rng = self.rng
        time_s = np.arange(min(self.samples, round(0.06 * self.rate_hz))) / self.rate_hz
        low_hz = self._spread(200.0, 1500.0)
        high_hz = min(0.45 * self.rate_hz, low_hz * rng.uniform(2, 8))
        sound = np.zeros(self.samples, np.float32)
        for _ in range(24):
            pitch_hz, decay_s = rng.uniform(low_hz, high_hz), self._spread(0.0005, 0.015)
            ring = np.exp(-time_s / decay_s) * np.sin(2 * np.pi * pitch_hz * time_s)
            count = max(1, rng.poisson(per_s * self.samples / self.rate_hz / 24))
            clicks = np.zeros(self.samples, np.float32)
            clicks[rng.integers(0, self.samples, count)] = np.exp(0.8 * rng.standard_normal(count))
            sound += oaconvolve(clicks, ring.astype(np.float32))[: self.samples]
        return _unit(sound)

    def rain(self) -> Sound:
        """Dense drops over a hiss."""
        hiss = self._between(0.1, 1.5) * self.noise(-4.0, 3.0)
        return self._drops(self._spread(100.0, 4000.0)) + hiss

    def tap(self) -> Sound:
        """Water that runs and bubbles: few drops and unsteady noise."""
        gain = self._gain((1.0, 6.0), (0.02, 0.3))
        flow = self._between(0.05, 2.0) * self.noise(-9.0, 0.0) * gain
        return self._drops(self._spread(2.0, 200.0)) + flow

    def _tone(self, pitch_hz: float | Sound, heights: np.ndarray) -> Sound:
        return harmonics(self.rng, pitch_hz, heights, self.samples, self.rate_hz)

    def engine(self) -> Sound:
        """Harmonics of a wandering pitch, and noise that beats with it."""
        rng = self.rng
        size = rng.uniform(0.002, 0.05)
        wander = 1 + size * slow_curve(rng, self.samples, self.rate_hz, step_s=0.4)
        pitch_hz = self._spread(12.0, 400.0) * wander
        count = max(1, min(60, int(0.4 * self.rate_hz / pitch_hz.max())))
        heights = np.exp(0.8 * rng.standard_normal(count))
        tone = self._tone(pitch_hz, heights * np.arange(1.0, count + 1) ** -rng.uniform(0, 1.5))
        beat = self._tone(pitch_hz * float(rng.choice([0.5, 1.0, 2.0])), np.ones(1))
        noise: Sound = self.noise() * (1 + self._between(0.0, 0.9) * beat)
        return _unit(tone) + np.float32(self._spread(0.1, 4.0)) * noise

    def wind(self) -> Sound:
        """Steep noise in gusts."""
        gain = self._gain((3.0, 9.0), (0.2, 1.5))
        return self.noise(-18.0, -6.0) * gain

    def waves(self) -> Sound:
        """Noise under slow swells, over some that stays."""
        phase = np.arange(self.samples) / self.rate_hz / self.rng.uniform(3, 9) + self.rng.uniform()
        steady = self._between(0.05, 0.5) * self.noise(-9.0, 0.0)
        return self.noise(-7.0, 0.0) * np.sin(np.pi * phase).astype(np.float32) ** 2 + steady

    def hum(self) -> Sound:
        """Mains with harmonics over faint noise, as of a logger in silence."""
        count = min(24, int(0.45 * self.rate_hz / 60))
        heights = np.exp(0.6 * self.rng.standard_normal(count)) / np.arange(1.0, count + 1)
        tone = self._tone(float(self.rng.choice([50.0, 60.0])), heights)
        noise = self.noise(-6.0, 3.0)
        return _unit(tone) + np.float32(self._spread(0.003, 0.3)) * noise


def negative_sound(seed: int, number: int, rate_hz: int, samples: int) -> Sound:
    """Clip `number` of a set, in [-1, 1], [samples]; its kind is `KINDS[number % 8]`."""
    clip = _Clip(stream(seed, Stream.NEGATIVE, number), samples, rate_hz)
    sound: Sound = getattr(clip, KINDS[number % len(KINDS)])()
    level = 10 ** (clip.rng.uniform(*LEVEL_RANGE_DBFS) / 20)
    sound = sound * np.float32(level / rms(sound))
    return sound.clip(-1, 1)


def synthetic_negatives(signal: SignalConfig, seed: int, cache: Path | None = None) -> Path:
    """The folder of WAV files of this signal and seed in `cache`, written where it is not there.

    Clips are 5 s long, or two windows if these are longer. `cache` is the user's where it is None.
    """
    folder = (cache or default_cache()) / f"negatives-{leakdet.__version__}-{signal.hash}-{seed}"
    require_writable(folder.parent)
    rate_hz = signal.sample_rate_hz
    samples = max(round(CLIP_S * rate_hz), 2 * signal.window_samples)
    with locked(folder.with_name(f".{folder.name}.lock")):
        if folder.exists():
            return folder
        with staged_folder(folder) as staged:
            for number in range(CLIPS):
                sound = negative_sound(seed, number, rate_hz, samples)
                file = staged / f"{KINDS[number % len(KINDS)]}-{number:03}.wav"
                soundfile.write(file, sound, rate_hz, subtype="PCM_16")
            publish(staged, folder)
    return folder
