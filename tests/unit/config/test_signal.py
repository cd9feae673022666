from dataclasses import asdict, replace

import pytest

from leakdet.config import SignalConfig
from leakdet.core.errors import SettingsError


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sample_rate_hz": 0}, r"signal\.sample_rate_hz=0 .*at least 1"),
        ({"segment_samples": 20000}, r"signal\.segment_samples=20000 .*window_samples=16000"),
        ({"window_hop_samples": 16001}, "sound would be skipped"),
        ({"fmin_hz": 9000.0}, r"signal\.fmin_hz=9000.* below 8000 Hz"),
        ({"fmin_hz": -1.0}, r"signal\.fmin_hz=-1"),
        ({"fmax_hz": "high"}, r"signal\.fmax_hz='high'"),
        ({"fmax_hz": 8001}, r"signal\.fmax_hz=8001 .*auto, or at most .*8000 Hz"),
        ({"n_fft": 2048}, r"signal\.n_fft=2048"),
        ({"n_fft": 1}, r"signal\.n_fft=1 "),
        ({"floor": 0.0}, r"signal\.floor=0"),
        ({"channels": "left"}, "one of mean, loudest, first, each"),
        ({"highpass_hz": 8000.0}, r"signal\.highpass_hz=8000"),
        ({"highpass_order": 13}, r"signal\.highpass_order=13 .*at most 12"),
    ],
)
def test_a_bad_value_names_the_setting_and_what_is_allowed(
    changes: dict[str, object], message: str
):
    with pytest.raises(SettingsError, match=message):
        SignalConfig(**changes)


def test_derived_counts_are_those_of_the_presets():
    assert SignalConfig().mel_shape == (30, 64, 1)
    assert SignalConfig(8192, 2048, 1024, 512, 256).segments == 7
    assert SignalConfig(4096, 1024, 1024, 512, 512).segments == 2
    assert SignalConfig(4096, 1024, 512, 512, 256).segments == 3
    assert SignalConfig(8192, 2048, 1024, 512, 256, n_fft=256, frame_hop_samples=64).frames == 5
    assert SignalConfig(8192, 2048, 1024).window_s == 0.25


def test_the_hash_tells_settings_apart_and_survives_json():
    signal = SignalConfig(fmax_hz=8000)
    assert signal == SignalConfig(fmax_hz=8000.0)
    assert signal.hash == SignalConfig.from_dict(asdict(signal), "x").hash
    assert signal.hash != replace(signal, floor=1e-6).hash
    assert signal.differences(replace(signal, n_mels=32)) == ["n_mels: 64 / 32"]


def test_auto_is_half_the_rate_until_the_sources_are_known():
    assert SignalConfig().top_hz == 8000.0
    assert SignalConfig(fmax_hz=700).top_hz == 700.0
