import numpy as np
import pytest
import torch

from leakdet.acoustics.mel import LogMel, mel_filterbank
from leakdet.config import SignalConfig
from leakdet.exporting.staged_mel import StagedMel, balanced_stride


@pytest.mark.parametrize(
    ("points", "hop", "stride"), [(1024, 512, 32), (480, 120, 20), (250, 125, 25), (499, 250, 1)]
)
def test_two_stages_give_the_mel_of_one_fft(points: int, hop: int, stride: int) -> None:
    signal = SignalConfig(
        8000, 4 * points, points, points, hop, n_mels=20, fmin_hz=100.0, floor=1e-10
    )
    sound = torch.from_numpy(np.random.default_rng(0).normal(0, 0.1, (2, 4 * points))).float()
    staged = StagedMel(signal, hop)
    expected = LogMel(signal)(sound)[..., 0].transpose(1, 2)
    assert staged.b == balanced_stride(points, hop) == stride
    torch.testing.assert_close(staged(sound), expected, atol=1e-3, rtol=0.0)


def test_the_end_of_a_sound_that_no_whole_frame_reaches_is_left_out() -> None:
    signal = SignalConfig(8000, 1003, 1003, 256, 128, n_mels=20, fmin_hz=100.0)
    sound = torch.from_numpy(np.random.default_rng(0).normal(0, 0.1, (1, 1003))).float()
    mel = StagedMel(signal, 128)(sound)
    assert mel.shape == (1, 20, 6)
    assert signal.segments == 6
    torch.testing.assert_close(StagedMel(signal, 128)(sound[:, :-100]), mel, atol=1e-4, rtol=0.0)


def test_faint_bands_below_loud_ones_are_as_exact_as_by_fft() -> None:
    """A swell of the sea 100 dB above the highest bands."""
    signal, rng = SignalConfig(), np.random.default_rng(0)
    swell = np.convolve(rng.normal(0, 1, 17000), np.hanning(200), "valid")[:16000]
    windows = torch.from_numpy(0.5 * swell / abs(swell).max())[None]
    segments = windows.unfold(-1, 1024, 512) * torch.hann_window(1024, dtype=torch.float64)
    exact = torch.fft.rfft(segments).abs() @ torch.from_numpy(mel_filterbank(signal))
    exact = 20 * torch.log10(exact.clamp(min=signal.floor)).transpose(1, 2)
    by_fft = LogMel(signal)(windows.float())[..., 0].transpose(1, 2)
    root_mean_square = lambda mel: float((mel - exact).square().mean().sqrt())  # noqa: E731
    staged = root_mean_square(StagedMel(signal, 512)(windows.float()))
    assert 1e-6 < staged < 2.0 * root_mean_square(by_fft)
