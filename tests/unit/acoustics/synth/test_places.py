import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from leakdet.acoustics.synth.places import MATERIALS, Material, attenuation_db
from leakdet.acoustics.synth.waveforms import grid_hz

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
