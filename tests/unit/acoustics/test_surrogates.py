import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakdet.acoustics import surrogates
from leakdet.acoustics.surrogates import SurrogateTransform, iaaft


def test_a_surrogate_keeps_amplitudes_exactly_and_the_spectrum_closely() -> None:
    rng = np.random.default_rng(0)
    sound = np.convolve(rng.standard_normal(4096), np.hanning(9), mode="same")
    made = iaaft(sound, rng)
    assert np.array_equal(np.sort(made), np.sort(sound))
    assert abs(np.corrcoef(made, sound)[0, 1]) < 0.2
    before, after = np.abs(np.fft.rfft(sound)), np.abs(np.fft.rfft(made))
    assert np.linalg.norm(after - before) < 0.05 * np.linalg.norm(before)


@given(st.lists(st.integers(0, 700), max_size=8))
def test_a_surrogate_depends_on_its_name_and_not_on_the_blocks_of_sound(sizes: list[int]) -> None:
    sound = np.random.default_rng(1).standard_normal(sum(sizes)).astype(np.float32)
    blocks = np.split(sound, np.cumsum(sizes)[:-1]) if sizes else []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(surrogates, "SURROGATE_PIECE_S", 0.5)
        made = np.concatenate([*SurrogateTransform("a", 1000)(blocks)])
        assert np.array_equal(made, np.concatenate([*SurrogateTransform("a", 1000)([sound])]))
        other = np.concatenate([*SurrogateTransform("b", 1000)(blocks)])
    assert made.dtype == np.float32
    assert np.array_equal(np.sort(made), np.sort(sound))
    assert len(sound) < 10 or not np.array_equal(made, other)
