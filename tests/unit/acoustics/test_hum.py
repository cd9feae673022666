"""Mains hum is found at either frequency, whatever the rate, and nothing else is taken for it."""

import numpy as np
import pytest
from scipy.signal import periodogram

from leakdet.acoustics.hum import PIECE_S, MainsHum


def mains_hum_db(sound: np.ndarray, rate_hz: int) -> tuple[float, ...]:
    """`MainsHum.prominences_db` of a whole recording."""
    hum = MainsHum(rate_hz)
    piece = int(PIECE_S * rate_hz)
    for start in range(0, len(sound), piece):
        hum.add(sound[start : start + piece])
    return hum.prominences_db()


def tone(hz: float, rate_hz: int, seconds: float, amplitude: float = 0.05) -> np.ndarray:
    rng = np.random.default_rng(0)
    time_s = np.arange(int(seconds * rate_hz)) / rate_hz
    return rng.normal(0.0, 0.1, len(time_s)) + amplitude * np.sin(2 * np.pi * hz * time_s)


@pytest.mark.parametrize("rate_hz", [4000, 16000, 44100])
@pytest.mark.parametrize(
    ("hz", "at_50", "at_60"),
    [(50.0, True, False), (60.0, False, True), (180.0, False, True), (333.0, False, False)],
)
def test_hum_is_found_at_its_own_frequency(
    rate_hz: int, hz: float, at_50: bool, at_60: bool
) -> None:
    hum_db = mains_hum_db(
        tone(hz, rate_hz, 10.0, amplitude=0.05 * np.sqrt(rate_hz / 4000)), rate_hz
    )
    assert [value > 6.0 for value in hum_db] == [at_50, at_60]
    assert all(
        value < 3.0 for value, present in zip(hum_db, (at_50, at_60), strict=True) if not present
    )


@pytest.mark.parametrize("rate_hz", [8000, 11025, 44100, 48000])
def test_it_is_the_ratio_that_the_whole_spectrum_gives(rate_hz: int) -> None:
    """Reference: scipy's periodograms of four seconds each, without any decimation."""
    sound = tone(50.0, rate_hz, 12.0)
    pieces = sound.reshape(3, -1)
    hz, power = periodogram(pieces, rate_hz, window="hann", detrend=False)
    distance = np.abs(hz[:, None] - 50.0 * np.arange(1, 5)).min(axis=1)
    mean = power.mean(axis=0)
    on, beside = mean[distance <= 1.0].mean(), mean[(distance >= 3.0) & (distance <= 8.0)].mean()
    assert mains_hum_db(sound, rate_hz)[0] == pytest.approx(10.0 * np.log10(on / beside), abs=0.1)


def test_a_short_end_hardly_matters_and_silence_has_none() -> None:
    sound = tone(50.0, 8000, 8.0)
    assert mains_hum_db(np.append(sound, 0.01), 8000) == pytest.approx(
        mains_hum_db(sound, 8000), abs=0.01
    )
    assert mains_hum_db(np.zeros(9000), 8000) == (0.0, 0.0)
    assert all(np.isfinite(mains_hum_db(np.ones(1), 8000)))
    assert MainsHum(80).prominences_db() == (0.0, 0.0)  # a rate that cannot hold it


@pytest.mark.parametrize("rate_hz", [8000, 16000, 48000])
def test_the_stronger_mains_is_told_whatever_the_level(rate_hz: int) -> None:
    sound = tone(120.0, rate_hz, 9.0).astype(np.float32)
    told = strongest(sound, rate_hz)
    assert told == max(mains_hum_db(sound, rate_hz))
    assert told is not None
    assert told > 6.0
    assert strongest(sound * np.float32(0.01), rate_hz) == pytest.approx(told, abs=1e-3)


def test_what_cannot_be_told_is_none() -> None:
    assert strongest(tone(50.0, 8000, 0.9), 8000) is None
    assert strongest(np.zeros(16000), 8000) is None
    hum = MainsHum(80)
    hum.add(np.ones(160))
    assert hum.strongest_db() is None


def strongest(sound: np.ndarray, rate_hz: int) -> float | None:
    hum = MainsHum(rate_hz)
    piece = int(PIECE_S * rate_hz)
    for start in range(0, len(sound), piece):
        hum.add(sound[start : start + piece])
    return hum.strongest_db()
