import numpy as np
import pytest
import torch

from leakdet.acoustics.mel import LogMel
from leakdet.config import SignalConfig
from leakdet.exporting.staged_mel import StagedMel, cheapest_stride


@pytest.mark.parametrize(
    ("points", "hop", "stride"), [(1024, 512, 16), (480, 120, 15), (250, 125, 5), (499, 250, 1)]
)
def test_two_stages_give_the_mel_of_one_fft(points: int, hop: int, stride: int) -> None:
    signal = SignalConfig(
        8000, 4 * points, points, points, hop, n_mels=20, fmin_hz=100.0, floor=1e-10
    )
    sound = torch.from_numpy(np.random.default_rng(0).normal(0, 0.1, (2, 4 * points))).float()
    staged = StagedMel(signal, hop)
    expected = LogMel(signal)(sound)[..., 0].transpose(1, 2)
    assert staged.b == cheapest_stride(points, hop) == stride
    torch.testing.assert_close(staged(sound), expected, atol=1e-3, rtol=0.0)


def test_the_end_of_a_sound_that_no_whole_frame_reaches_is_left_out() -> None:
    signal = SignalConfig(8000, 1003, 1003, 256, 128, n_mels=20, fmin_hz=100.0)
    sound = torch.from_numpy(np.random.default_rng(0).normal(0, 0.1, (1, 1003))).float()
    mel = StagedMel(signal, 128)(sound)
    assert mel.shape == (1, 20, 6)
    assert signal.segments == 6
    torch.testing.assert_close(StagedMel(signal, 128)(sound[:, :-100]), mel, atol=1e-4, rtol=0.0)
