import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from leakdet.acoustics.mel import LogMel, band_centres_hz, detrended, magnitude, mel_filterbank
from leakdet.config import SignalConfig
from leakdet.core.errors import SettingsError

PRESETS = {
    "field": SignalConfig(),
    "paper": SignalConfig(8192, 2048, 1024, 512, 256, fmin_hz=0.0),
    "ailh": SignalConfig(4096, 1024, 1024, 512, 512, fmin_hz=0.0, floor=1e-10),
    "two frames": SignalConfig(
        8192, 2048, 1024, 512, 256, n_fft=256, frame_hop_samples=128, n_mels=32, fmin_hz=0.0
    ),
}


def reference(window: np.ndarray, signal: SignalConfig) -> np.ndarray:
    """The formula written out, one frame and one filter at a time, in float64."""
    n = signal.fft_samples
    hann = np.array([0.5 - 0.5 * math.cos(2 * math.pi * i / n) for i in range(n)])
    to_mel = lambda f: 2595 * math.log10(1 + f / 700)  # noqa: E731
    low, high = to_mel(signal.fmin_hz), to_mel(signal.top_hz)
    corners = [
        700 * (10 ** ((low + (high - low) * i / (signal.n_mels + 1)) / 2595) - 1)
        for i in range(signal.n_mels + 2)
    ]
    bins_hz = np.fft.rfftfreq(n, 1 / signal.sample_rate_hz)
    out = np.empty(signal.mel_shape)
    for s in range(signal.segments):
        for t in range(signal.frames):
            start = s * signal.segment_hop_samples + t * signal.fft_hop_samples
            spectrum = np.abs(np.fft.rfft(window[start : start + n].astype(np.float64) * hann))
            for m in range(signal.n_mels):
                a, b, c = corners[m : m + 3]
                triangle = [max(0.0, min((f - a) / (b - a), (c - f) / (c - b))) for f in bins_hz]
                out[s, m, t] = 20 * math.log10(max(float(np.dot(triangle, spectrum)), signal.floor))
    return out


@pytest.mark.parametrize("signal", PRESETS.values(), ids=PRESETS)
def test_mel_is_the_formula(signal: SignalConfig):
    window = (0.2 * np.random.default_rng(3).standard_normal(signal.window_samples)).astype(
        np.float32
    )
    mel = LogMel(signal)(torch.from_numpy(window)[None])[0].numpy()
    np.testing.assert_allclose(mel, reference(window, signal), atol=2e-3)


def test_silence_is_the_floor():
    mel = LogMel(SignalConfig())(torch.zeros(1, 16000))
    assert torch.equal(mel, torch.full_like(mel, -100.0))


def test_twice_as_loud_is_6_db():
    window = torch.randn(1, 16000, generator=torch.Generator().manual_seed(0)) * 0.1
    log_mel = LogMel(SignalConfig())
    torch.testing.assert_close(
        log_mel(window * 2) - log_mel(window), torch.full((1, 30, 64, 1), 6.0206), atol=1e-3, rtol=0
    )


@pytest.mark.parametrize(
    ("signal", "empty"),
    [
        (
            SignalConfig(8000, 2048, 1024, 256, 128, n_mels=128, fmin_hz=0.0),
            6,
        ),  # the counts that users reported
        (SignalConfig(8192, 2048, 1024, 128, 64, n_mels=64, fmin_hz=0.0), None),
    ],
)
def test_filters_without_a_bin_are_refused_with_a_remedy_that_works(
    signal: SignalConfig, empty: int | None
):
    with pytest.raises(SettingsError, match="hold no FFT bin") as caught:
        mel_filterbank(signal)
    message = str(caught.value)
    if empty is not None:
        assert f"{empty} of the mel filters" in message
    suggested = int(message.split("n_mels=")[2].split()[0])
    assert mel_filterbank(replace(signal, n_mels=suggested)).shape[1] == suggested


def test_fmax_above_half_the_rate_is_refused():
    with pytest.raises(SettingsError, match=r"fmax_hz=9000.*8000 Hz"):
        SignalConfig(fmax_hz=9000)


def test_detrending_takes_mean_and_line():
    ramp = torch.linspace(0.5, 2.5, 1000)[None]
    torch.testing.assert_close(detrended(ramp, "mean").mean(), torch.tensor(0.0), atol=1e-6, rtol=0)
    torch.testing.assert_close(detrended(ramp, "linear"), torch.zeros(1, 1000), atol=1e-5, rtol=0)
    assert torch.equal(detrended(ramp, "none"), ramp)


@pytest.mark.parametrize("signal", PRESETS.values(), ids=PRESETS)
def test_band_centres_are_where_the_filters_peak(signal: SignalConfig):
    fine = replace(signal, n_fft=0, segment_samples=1 << 15, window_samples=1 << 15)
    bins_hz = np.linspace(0, signal.sample_rate_hz / 2, (1 << 14) + 1)
    peaks_hz = bins_hz[mel_filterbank(fine).argmax(axis=0)]
    np.testing.assert_allclose(band_centres_hz(signal), peaks_hz, atol=bins_hz[1])


def test_band_centres_are_equally_spaced_in_mel():
    centres = band_centres_hz(SignalConfig(fmin_hz=0.0, fmax_hz=8000.0, n_mels=1))
    assert 2595 * math.log10(1 + centres[0] / 700) == pytest.approx(2840.023 / 2, abs=1e-3)


@pytest.mark.parametrize("detrend", ["none", "mean", "linear"])
def test_log_mel_carries_gradients(detrend: str):
    signal = SignalConfig(2000, 40, 20, 20, 10, n_mels=3, fmin_hz=0.0, detrend=detrend)
    windows = torch.randn(2, 40, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(LogMel(signal).double(), windows)


def test_log_mel_moves_to_a_device():
    moved = LogMel(SignalConfig()).to("meta")
    mel = moved(torch.empty(2, 16000, device="meta"))
    assert (mel.device.type, mel.shape) == ("meta", (2, 30, 64, 1))


def test_both_ways_to_the_magnitude_agree():
    spectrum = torch.randn(5, 7, dtype=torch.complex64)
    with_gradient = magnitude(spectrum.clone().requires_grad_())
    torch.testing.assert_close(with_gradient, magnitude(spectrum))
