import numpy as np
import pytest
from scipy.signal import welch

from leakdet.acoustics.synth.waveforms import coloured_noise, grid_hz, harmonics

RATE_HZ = 16000


@pytest.mark.parametrize("tilt_db", [0.0, -6.0])
def test_coloured_noise_has_the_density_it_was_asked_for(tilt_db: float) -> None:
    freqs_hz = grid_hz(RATE_HZ)
    asked_db = -40 + tilt_db * np.log2(freqs_hz / 1000)
    noise = coloured_noise(np.random.default_rng(0), freqs_hz, asked_db, 20 * RATE_HZ)
    found_hz, found = welch(noise, RATE_HZ, nperseg=1024)
    inside = (found_hz > 100) & (found_hz < 7800)
    error_db = 10 * np.log10(found[inside]) - np.interp(found_hz[inside], freqs_hz, asked_db)
    assert np.abs(error_db).mean() < 0.5
    assert abs(error_db.mean()) < 0.1


def test_harmonics_equal_their_sum_of_cosines() -> None:
    amplitudes = np.array([1.0, 0.5, 0.0, 0.25])
    sound = harmonics(np.random.default_rng(3), 210.0, amplitudes, 4000, RATE_HZ)
    phases = 2 * np.pi * np.random.default_rng(3).uniform(size=4)
    turn = 2 * np.pi * 210.0 * np.arange(1, 4001) / RATE_HZ
    direct = sum(
        a * np.cos(k * turn + phase)
        for k, (a, phase) in enumerate(zip(amplitudes, phases, strict=True), start=1)
    )
    np.testing.assert_allclose(sound, direct, atol=1e-4)
