from dataclasses import asdict, replace

import pytest

from leakdet.config import (
    BuildConfig,
    DataConfig,
    DecisionConfig,
    DemoConfig,
    LossConfig,
    NetworkConfig,
    SignalConfig,
    SplitConfig,
    TrainConfig,
)
from leakdet.errors import SettingsError


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: SignalConfig(sample_rate_hz=0), "signal.sample_rate_hz=0"),
        (lambda: SignalConfig(segment_samples=20000), "signal.segment_samples=20000"),
        (lambda: SignalConfig(window_hop_samples=16001), "sound would be skipped"),
        (lambda: SignalConfig(fmin_hz=9000.0), "signal.fmin_hz=9000"),
        (lambda: SignalConfig(fmax_hz="high"), "signal.fmax_hz='high'"),
        (lambda: SignalConfig(n_fft=2048), "signal.n_fft=2048"),
        (lambda: SignalConfig(channels="left"), "one of mean, first"),
        (lambda: SplitConfig(ratios=[0.5, 0.2, 0.2]), "add up to 1"),
        (lambda: SplitConfig(ratios=[0.0, 0.5, 0.5]), "more than 0 for train"),
        (lambda: DataConfig(batch_size=0), "data.batch_size=0"),
        (lambda: NetworkConfig(name="transformer"), "one of paper, dual_head, linear"),
        (lambda: NetworkConfig(dropout=1.0), "network.dropout=1.0"),
        (lambda: LossConfig(alpha=2.0), "loss.alpha=2.0"),
        (lambda: DecisionConfig(vote_fraction=0.0), "decision.vote_fraction=0.0"),
        (lambda: DemoConfig(leak_fraction=-0.1), "demo.leak_fraction=-0.1"),
        (lambda: BuildConfig(verify="maybe"), "one of off, sample, full"),
        (lambda: TrainConfig(patience=0), "patience=0"),
    ],
)
def test_a_bad_value_names_the_setting_and_what_is_allowed(make, named: str):
    with pytest.raises(SettingsError, match="must be") as caught:
        make()
    assert named in str(caught.value)


def test_derived_counts_are_those_of_the_presets():
    assert SignalConfig().mel_shape == (30, 64, 1)
    assert SignalConfig(8192, 2048, 1024, 512, 256).segments == 7
    assert SignalConfig(4096, 1024, 1024, 512, 512).segments == 2
    assert SignalConfig(4096, 1024, 512, 512, 256).segments == 3
    assert SignalConfig(8192, 2048, 1024, 512, 256, n_fft=256, frame_hop_samples=64).frames == 5


def test_the_hash_tells_settings_apart_and_survives_json():
    signal = SignalConfig(fmax_hz=8000)
    assert signal == SignalConfig(fmax_hz=8000.0)
    assert signal.hash == SignalConfig.from_dict(asdict(signal), "x").hash
    assert signal.hash != replace(signal, floor=1e-6).hash
    assert signal.differences(replace(signal, n_mels=32)) == ["n_mels: 64 / 32"]


def test_stored_settings_of_another_version_are_refused():
    stored = asdict(SignalConfig())
    with pytest.raises(
        SettingsError, match=r"model.x: its SignalConfig has unknown fields \['colour'\]"
    ):
        SignalConfig.from_dict({**stored, "colour": 1}, "model.x")
    del stored["n_mels"]
    with pytest.raises(SettingsError, match=r"lacks \['n_mels'\]"):
        SignalConfig.from_dict(stored, "model.x")
