from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import welch

from leakdet.acoustics.synth.sounds import (
    KINDS,
    MATERIALS,
    Material,
    attenuation_db,
    burst,
    draw_site,
    hum_sound,
    jet_db,
    jet_peak_hz,
    leak_db,
    leak_sound,
)
from leakdet.acoustics.synth.waveforms import grid_hz, rms

RATE_HZ = 16000


@given(
    distance_m=st.floats(0, 100), farther_m=st.floats(0.1, 100), material=st.sampled_from(MATERIALS)
)
def test_distance_takes_level_and_highs(
    distance_m: float, farther_m: float, material: Material
) -> None:
    freqs_hz = grid_hz(RATE_HZ)
    near, far = (
        attenuation_db(freqs_hz, material, distance)
        for distance in (distance_m, distance_m + farther_m)
    )
    assert (far > near).all()
    assert far[-1] - far[0] > near[-1] - near[0]


def test_plastic_attenuates_more_than_metal() -> None:
    losses = {
        material.name: attenuation_db(np.array([1000.0]), material, 10.0)[0]
        for material in MATERIALS
    }
    assert losses["steel"] < losses["cast-iron"] < losses["pvc"] < losses["pe"]


def test_the_jet_peaks_where_strouhal_says_and_falls_like_turbulence() -> None:
    freqs_hz = np.geomspace(10, 100_000, 2000)
    shape_db = jet_db(freqs_hz, hole_mm=3.0, pressure_bar=4.0)
    assert jet_peak_hz(3.0, 4.0) == pytest.approx(0.2 * np.sqrt(2 * 4e5 / 1000) / 3e-3)
    assert freqs_hz[shape_db.argmax()] == pytest.approx(jet_peak_hz(3.0, 4.0), rel=0.15)
    assert shape_db[-1] - np.interp(50_000, freqs_hz, shape_db) == pytest.approx(
        -70 / 3 * np.log10(2), abs=0.1
    )


@pytest.mark.parametrize("site", range(4))
def test_a_far_leak_sounds_duller(site: int) -> None:
    def brightness_db(share_of_reach: float) -> float:
        drawn = draw_site(0, site, RATE_HZ)
        place = replace(drawn, leak_distance_m=share_of_reach * drawn.material.reach_m)
        density_db, _ = leak_db(np.random.default_rng(1), place, difficulty=1.0)
        freqs_hz, power = welch(
            leak_sound(np.random.default_rng(2), place, density_db, 4 * RATE_HZ),
            RATE_HZ,
            nperseg=1024,
        )
        high, low = (
            power[(freqs_hz > a) & (freqs_hz < b)].mean() for a, b in ((3000, 5000), (400, 1000))
        )
        return float(10 * np.log10(high / low))

    near, middle, far = (brightness_db(share) for share in (0.02, 0.4, 0.8))
    assert near > middle + 1 > far + 2


def test_hum_lies_on_the_multiples_of_50_hz_but_is_not_exactly_periodic() -> None:
    hum = hum_sound(np.random.default_rng(0), draw_site(0, 0, RATE_HZ), 8 * RATE_HZ)
    power = np.abs(np.fft.rfft(hum * np.hanning(hum.size))) ** 2
    freqs_hz = np.fft.rfftfreq(hum.size, 1 / RATE_HZ)
    near_multiple = (np.abs(freqs_hz - 50 * np.round(freqs_hz / 50)) < 2) & (freqs_hz > 25)
    assert power[near_multiple].sum() > 0.99 * power.sum()
    period = RATE_HZ // 50
    assert rms(hum[200 * period :] - hum[: -200 * period]) > 0.05 * rms(hum)


@pytest.mark.parametrize("kind", KINDS)
def test_events_are_short_sounds_of_unit_peak(kind: str) -> None:
    sound = burst(np.random.default_rng(0), draw_site(0, 0, RATE_HZ), kind, 1600)
    assert sound.shape == (1600,)
    assert np.abs(sound).max() == pytest.approx(1)


def test_unknown_events_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'thunder'.*knock, tap"):
        burst(np.random.default_rng(0), draw_site(0, 0, RATE_HZ), "thunder", 100)
