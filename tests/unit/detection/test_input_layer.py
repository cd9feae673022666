import torch

from leakdet.config import NetworkConfig
from leakdet.detection.input_layer import InputLayer


def test_the_input_layer_gives_bands_of_mean_0_and_deviation_1():
    layer = InputLayer(NetworkConfig(time_pool=3), 8)
    mel = torch.randn(64, 7, 8, 1) * torch.arange(1, 9)[:, None] + 10 * torch.arange(8)[:, None]
    layer.fit(mel.split(10))
    x = layer(mel)
    assert x.shape == (64, 1, 8, 3)
    torch.testing.assert_close(x.mean((0, 1, 3)), torch.zeros(8), atol=1e-3, rtol=0)
    torch.testing.assert_close(x.var((0, 1, 3), correction=0), torch.ones(8), atol=1e-3, rtol=0)


def test_a_silent_band_stays_finite():
    layer = InputLayer(NetworkConfig(input_norm="none"), 2)
    layer.fit([torch.full((4, 30, 2, 1), -100.0)])
    assert torch.equal(layer(torch.full((4, 30, 2, 1), -100.0)), torch.zeros(4, 1, 2, 8))
