import numpy as np
import pytest

from leakdet.acoustics.synth.interference_sounds import KINDS, burst
from leakdet.acoustics.synth.places import draw_site

RATE_HZ = 16000


@pytest.mark.parametrize("kind", KINDS)
def test_events_are_short_sounds_of_unit_peak(kind: str) -> None:
    sound = burst(np.random.default_rng(0), draw_site(0, 0, RATE_HZ), kind, 1600)
    assert sound.shape == (1600,)
    assert np.abs(sound).max() == pytest.approx(1)


def test_unknown_events_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'thunder'.*knock, tap"):
        burst(np.random.default_rng(0), draw_site(0, 0, RATE_HZ), "thunder", 100)
