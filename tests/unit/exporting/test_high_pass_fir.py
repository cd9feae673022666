import numpy as np
import pytest
import torch

from leakdet.acoustics.array_recording import ArrayRecording
from leakdet.acoustics.audio import SoundStream
from leakdet.config import SignalConfig
from leakdet.exporting.high_pass_fir import HighPass, impulse_response


@pytest.mark.parametrize(("hz", "order"), [(100.0, 4), (600.0, 2), (40.0, 8)])
def test_the_convolution_is_the_filter_that_predict_runs(hz: float, order: int) -> None:
    signal = SignalConfig(highpass_hz=hz, highpass_order=order)
    sound = (0.3 + np.random.default_rng(0).normal(0, 0.1, 20000)).astype(np.float32)
    expected = np.concatenate(list(SoundStream(ArrayRecording(sound, 16000), signal)))
    filtered = HighPass(signal)(torch.from_numpy(sound)[None])[0].numpy()
    np.testing.assert_allclose(filtered, expected, atol=2e-6)


def test_what_is_cut_off_holds_little_of_the_energy() -> None:
    response = impulse_response(SignalConfig(highpass_hz=100.0))
    assert 500 < len(response) < 1500
    assert abs(response).max() == response[0]
