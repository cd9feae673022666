"""The level of the quiet part of a recording."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakdet.acoustics.quiet_level import FRAME_S, QuietLevel, low_share

RATE_HZ = 8000


def level(sound: np.ndarray, rate_hz: int = RATE_HZ, block: int = 32000) -> float | None:
    quiet = QuietLevel(rate_hz)
    for start in range(0, len(sound), block):
        quiet.add(sound[start : start + block].astype(np.float32))
    return quiet.dbfs()


def noise(seconds: float, rms: float = 0.1) -> np.ndarray:
    return np.random.default_rng(0).normal(0.0, rms, int(seconds * RATE_HZ)).astype(np.float32)


def test_it_is_the_10th_percentile_of_the_levels_of_frames() -> None:
    sound = noise(5.03) * np.linspace(0.1, 1.0, int(5.03 * RATE_HZ))
    size = int(FRAME_S * RATE_HZ)
    frames = sound[: 50 * size].reshape(50, size)
    expected = np.percentile(20.0 * np.log10(frames.std(axis=1)), 10.0)
    assert level(sound) == pytest.approx(expected, abs=1e-3)


@settings(deadline=None)
@given(gain_db=st.floats(-40.0, 40.0), offset=st.floats(-0.01, 0.01))
def test_it_shifts_by_the_gain_and_not_by_an_offset(gain_db: float, offset: float) -> None:
    louder = noise(2.0, 0.01) * 10.0 ** (gain_db / 20.0) + offset
    before = level(noise(2.0, 0.01))
    assert before is not None
    assert level(louder) == pytest.approx(before + gain_db, abs=0.02)


@settings(deadline=None)
@given(block=st.integers(1, 20000))
def test_it_does_not_depend_on_the_blocks(block: int) -> None:
    sound = noise(1.33)
    assert level(sound, block=max(block, 50)) == pytest.approx(level(sound), abs=1e-5)


def test_a_loud_passage_does_not_raise_it_and_what_is_no_sound_does_not_lower_it() -> None:
    quiet = level(noise(10.0, 0.01))
    assert quiet is not None
    passing = noise(10.0, 0.01)
    passing[: 5 * RATE_HZ] *= 30.0
    assert level(passing) == pytest.approx(quiet, abs=0.3)
    dropouts = noise(10.0, 0.01)
    dropouts[: 3 * RATE_HZ] = 0.0
    dropouts[3 * RATE_HZ : 5 * RATE_HZ] = 0.5
    assert level(dropouts) == pytest.approx(quiet, abs=0.1)


def test_of_a_long_recording_some_frames_count_whatever_the_blocks() -> None:
    powers = np.random.default_rng(0).uniform(0.1, 1.0, 20_000).astype(np.float32)
    sound = np.repeat(powers, 16) * np.tile([1.0, -1.0], 160_000).astype(np.float32)
    every_eighth = 20.0 * np.log10(powers[::8])
    for block in (160, 7_000, 400_000):
        assert level(sound, 160, block) == pytest.approx(np.percentile(every_eighth, 10), abs=1e-4)
    assert level(sound, 160) == pytest.approx(np.percentile(20.0 * np.log10(powers), 10), abs=0.5)


def test_a_full_sine_is_3_db_below_full_scale_at_any_rate() -> None:
    for rate_hz in (8000, 11025, 44100):
        sine = np.sin(2 * np.pi * 440.0 * np.arange(2 * rate_hz) / rate_hz)
        assert level(sine, rate_hz) == pytest.approx(-3.01, abs=0.02)


def test_without_sound_there_is_no_level() -> None:
    for sound in (np.zeros(RATE_HZ), np.full(RATE_HZ, 0.25), noise(0.05), np.empty(0)):
        assert level(sound) is None


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=40))
def test_the_low_share_is_the_10th_percentile(values: list[float]) -> None:
    assert low_share(np.array(values)) == pytest.approx(np.percentile(values, 10.0), abs=1e-9)
