import numpy as np
import pytest

from leakdet.acoustics.channel_mix import ChannelMix, loudest_channel

NOISE = (0.1 * np.random.default_rng(0).standard_normal((2, 8000))).astype(np.float32)


@pytest.mark.parametrize(
    ("left", "right", "cancels"),
    [
        (NOISE[0], -NOISE[0], True),
        (NOISE[0] + np.float32(0.5), -NOISE[0] + np.float32(0.5), True),
        (NOISE[0], NOISE[0], False),
        (NOISE[0], NOISE[1], False),
        (NOISE[0], 0 * NOISE[0], False),
        (0 * NOISE[0], 0 * NOISE[0], False),
    ],
)
def test_only_channels_in_opposite_phase_cancel(
    left: np.ndarray, right: np.ndarray, cancels: bool
) -> None:
    both = np.stack([left, right], 1)
    mix = ChannelMix(2, None)
    mono = np.concatenate([mix(both[:3000]), mix(both[3000:])])
    np.testing.assert_array_equal(mono, both.mean(axis=1))
    assert mix.cancels == cancels
    picked = ChannelMix(2, 1)
    np.testing.assert_array_equal(picked(both), right)
    assert not picked.cancels


def test_the_loudest_channel_is_that_of_the_whole_recording_without_its_offset() -> None:
    both = np.stack([0.2 * NOISE[0] + np.float32(0.9), NOISE[1]], 1)
    assert loudest_channel([both[:100], both[100:]]) == 1
    assert loudest_channel([both[:, ::-1]]) == 0
    assert loudest_channel([0 * both]) == 0
