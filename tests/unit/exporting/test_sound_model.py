"""A detector as one network, beside predict: every kind of network, signal, unit and rule."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leakdet.config import NetworkConfig, SignalConfig
from leakdet.exporting.sound_model import SoundModel

NETWORKS = {
    "paper": NetworkConfig(conv_channels=4, dense=8),
    "linear": NetworkConfig("linear", input_norm="none", time_pool=1),
    "dual_head": NetworkConfig("dual_head", time_pool=1),
    "compact": NetworkConfig("compact", conv_channels=4, dense=8, time_pool=3),
}
SIGNALS = {
    "plain": {},
    "high-pass": {"highpass_hz": 150.0},
    "mean": {"detrend": "mean", "window_hop_samples": 300},
    "line": {"detrend": "linear", "highpass_hz": 90.0, "window_hop_samples": 1024},
    "frames": {"n_fft": 100, "frame_hop_samples": 50, "n_mels": 8},
    "odd": {"window_samples": 1001, "segment_samples": 251, "segment_hop_samples": 130},
}
NO_LEAD = torch.zeros(1, dtype=torch.int64)
LENGTHS = (1.0, 1.3, 1.6, 2.0, 3.71, 20.0)


def sounds(window: int) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    made = [(0.1 * rng.standard_normal(int(window * k))).astype(np.float32) for k in LENGTHS]
    made[-1][3000:6000], made[-1][9000:9100] = 0.0, 0.25
    return made


def check(detector, recordings: list[np.ndarray] | None = None) -> None:
    inner = detector.mel_detector
    model = SoundModel(inner).eval()
    moments = torch.zeros(3, inner.signal.n_mels)
    for sound in recordings or sounds(inner.signal.window_samples):
        verdict = detector.predict((sound, inner.signal.sample_rate_hz))
        with torch.inference_mode():
            outputs = model(torch.from_numpy(sound)[None], moments, NO_LEAD)
        told = np.array([(window.start_s, window.leak_prob) for window in verdict.windows])
        np.testing.assert_allclose(outputs.window_start_s.numpy(), told[:, 0], atol=6e-4)
        np.testing.assert_allclose(outputs.window_prob.numpy(), told[:, 1], atol=1e-4)
        assert float(outputs.leak_prob) == pytest.approx(verdict.leak_prob, abs=1e-4)
        if abs(verdict.leak_prob - verdict.threshold) > 1e-4:
            decision = {"leak": 1, "no_leak": 0, "undecided": -1}[verdict.decision]
            assert int(outputs.decision) == decision
        if verdict.familiarity is not None:
            assert float(outputs.familiarity) == pytest.approx(verdict.familiarity, abs=2e-3)


@pytest.mark.parametrize("unit", ["window", "segment"])
@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_every_network_gives_what_predict_gives(made, network: NetworkConfig, unit: str) -> None:
    check(made(network=network, unit=unit))


@pytest.mark.parametrize("changes", SIGNALS.values(), ids=SIGNALS)
@pytest.mark.parametrize("pooling", ["mean", "vote", "logit_mean"])
def test_every_signal_and_pooling_gives_what_predict_gives(
    made, ruled, detector, changes: dict[str, object], pooling: str
) -> None:
    signal = replace(detector.mel_detector.signal, **changes)
    check(ruled(made(signal), pooling=pooling, threshold=0.45, unfamiliar="normal"))


def test_the_classes_of_windows_add_up_to_one(made) -> None:
    detector = made(classes=("NORMAL", "LEAK", "CRACK"))
    sound = torch.from_numpy(sounds(1024)[-2])[None]
    with torch.inference_mode():
        outputs = SoundModel(detector.mel_detector)(sound, torch.zeros(3, 12), NO_LEAD)
    assert outputs.class_prob.shape == (len(outputs.window_prob), 3)
    torch.testing.assert_close(outputs.class_prob.sum(1), torch.ones(len(outputs.window_prob)))


@pytest.mark.parametrize("length", [1, 100, 1023])
def test_a_sound_without_a_whole_window_gives_nan(made, length: int) -> None:
    with torch.inference_mode():
        model = SoundModel(made().mel_detector)
        outputs = model(torch.randn(1, length), torch.zeros(3, 12), NO_LEAD)
    assert outputs.window_prob.isnan().all()
    assert outputs.leak_prob.isnan()
    assert outputs.familiarity.isnan()
    assert int(outputs.decision) == -1
    assert not outputs.window_live.any()
    assert outputs.scored_prob.isfinite().all()


SIGNAL = st.builds(
    lambda rate, segment, hops, window_hop, **more: SignalConfig(
        rate, 4 * segment + 7, window_hop, segment, segment // hops, **more
    ),
    rate=st.sampled_from([4000, 8000, 16000]),
    segment=st.sampled_from([128, 200, 251, 256]),
    hops=st.integers(1, 4),
    window_hop=st.integers(60, 512),
    n_mels=st.integers(4, 9),
    fmin_hz=st.just(300.0),
    detrend=st.sampled_from(["none", "mean", "linear"]),
    highpass_hz=st.sampled_from([0.0, 120.0, 400.0]),
)
RULE = {"pooling": ["mean", "vote", "logit_mean"], "unfamiliar": ["off", "normal", "strict"]}


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    signal=SIGNAL,
    network=st.sampled_from(list(NETWORKS.values())),
    unit=st.sampled_from(["window", "segment"]),
    rule=st.fixed_dictionaries({name: st.sampled_from(kinds) for name, kinds in RULE.items()}),
    fraction=st.floats(0.05, 1.0),
    length=st.floats(1.0, 9.0),
    seed=st.integers(0, 99),
)
def test_any_model_gives_what_predict_gives(
    made, ruled, signal, network, unit, rule, fraction, length, seed
) -> None:
    rng = np.random.default_rng(seed)
    sound = (0.1 * rng.standard_normal(int(length * signal.window_samples) + 1)).astype(np.float32)
    check(ruled(made(signal, network, unit=unit), vote_fraction=fraction, **rule), [sound])
