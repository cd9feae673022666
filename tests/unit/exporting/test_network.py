from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leakdet.acoustics.audio import ArrayRecording, SoundStream
from leakdet.acoustics.mel import LogMel, mel_filterbank
from leakdet.acoustics.windows import MelStream, window_starts
from leakdet.config import NetworkConfig, SignalConfig, model
from leakdet.detection.decision import pool
from leakdet.detection.networks import band_features, window_moments
from leakdet.detection.thresholds import NEVER
from leakdet.exporting import network
from leakdet.exporting.network import (
    HighPass,
    PooledVerdict,
    SoundModel,
    StagedMel,
    balanced_stride,
    float32_at_least,
    impulse_response,
    in_dead_runs,
    live_windows,
)

LIVE_SIGNAL = SignalConfig(4000, 1024, 512, 256, 128, n_mels=12, fmin_hz=100.0)


@pytest.mark.parametrize("seed", range(4))
def test_windows_are_live_where_the_stream_says_so(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sound = rng.normal(0, 0.1, 20000).astype(np.float32)
    for _ in range(12):
        start, length = rng.integers(0, 19000), rng.choice([20, 39, 40, 60, 110, 300, 2000])
        sound[start : start + length] = rng.choice([0.0, 0.25, 1e-6])
    blocks = list(MelStream(ArrayRecording(sound, 4000), LogMel(LIVE_SIGNAL)))
    expected = np.concatenate([block.live for block in blocks])
    starts = torch.from_numpy(window_starts(len(sound), LIVE_SIGNAL))
    windows = torch.stack([torch.from_numpy(sound)[at : at + 1024] for at in starts.tolist()])
    live = live_windows(windows, torch.from_numpy(sound), starts, 4000)
    assert 0 < expected.sum() < len(expected)
    assert live.tolist() == expected.tolist()


def test_a_run_counts_from_ten_milliseconds_on() -> None:
    sound = torch.arange(400.0)
    sound[100:140], sound[200:239] = 7.0, 7.0
    dead = in_dead_runs(sound, 4000)
    assert dead.nonzero().flatten().tolist() == list(range(100, 140))


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


NO_MOMENTS = torch.zeros(3, 12)


@pytest.mark.parametrize("pooling", ["mean", "vote", "logit_mean"])
@pytest.mark.parametrize("fraction", [0.1, 0.5, 1.0])
def test_live_windows_are_pooled_as_by_predict(made, ruled, pooling: str, fraction: float) -> None:
    detector = ruled(made(reference=False), pooling=pooling, vote_fraction=fraction)
    verdict = PooledVerdict(detector.mel_detector)
    rng = np.random.default_rng(0)
    for windows in (1, 2, 3, 10, 30):
        prob = rng.uniform(0, 1, windows).astype(np.float32)
        prob[0] = rng.choice([0.0, 1.0, prob[0]])
        live = rng.uniform(0, 1, windows) < 0.7
        live[0] = True
        score = verdict.pooled(torch.from_numpy(prob), torch.from_numpy(live))
        expected = pool(prob[live], np.array([0, live.sum()]), pooling, fraction)[0]
        assert float(score) == pytest.approx(expected, abs=2e-7)


@pytest.mark.parametrize("pooling", ["mean", "vote", "logit_mean"])
def test_without_a_live_window_nothing_is_decided(made, ruled, pooling: str) -> None:
    verdict = PooledVerdict(ruled(made(), pooling=pooling).mel_detector)
    mel = torch.full((2, 7, 12, 1), -50.0)
    pooled = verdict(torch.tensor([0.9, 0.9]), torch.tensor([False, False]), mel, NO_MOMENTS)
    assert pooled.leak_prob.isnan()
    assert int(pooled.decision) == network.UNDECIDED


@pytest.mark.parametrize("threshold", [0.3, 0.7, 1.0, NEVER, 1 / 3])
def test_a_score_reaches_a_threshold_in_float32_where_it_does_in_float64(threshold: float) -> None:
    rounded = float32_at_least(threshold)
    near = np.float32(threshold)
    scores = [near, np.nextafter(near, np.float32(0)), np.nextafter(near, np.float32(2))]
    assert [s >= np.float32(rounded) for s in scores] == [float(s) >= threshold for s in scores]


def test_familiarity_is_that_of_the_reference_also_in_pieces(made, ruled) -> None:
    detector = ruled(made(), unfamiliar="normal")
    verdict = PooledVerdict(detector.mel_detector)
    mel = torch.from_numpy(np.random.default_rng(0).normal(-55, 4, (9, 7, 12, 1))).float()
    mel = mel + 3.0 * torch.arange(12)[:, None]
    prob, live = torch.full((9,), 0.9), torch.ones(9, dtype=torch.bool)
    live[2] = False
    moments = window_moments(mel)[live.numpy()].mean(0, keepdims=True)
    expected = detector.mel_detector.reference.familiarity(band_features(moments))[0]
    whole = verdict(prob, live, mel, NO_MOMENTS)
    assert float(whole.familiarity) == pytest.approx(expected, rel=1e-3)
    first = verdict(prob[:4], live[:4], mel[:4], NO_MOMENTS)
    rest = verdict(prob[4:], live[4:], mel[4:], first.moments)
    assert float(rest.familiarity) == pytest.approx(expected, rel=1e-3)
    assert expected > 1
    assert int(whole.decision) == network.UNDECIDED


@pytest.mark.parametrize("threshold", [0.5, 0.97, 0.0, NEVER])
def test_the_graph_doubts_in_float32_what_the_rule_doubts(made, ruled, threshold: float) -> None:
    detector = ruled(made(reference=False), threshold=threshold, doubt=0.2).mel_detector
    verdict, mel = PooledVerdict(detector), torch.full((1, 7, 12, 1), -50.0)
    ends = np.array([*detector.rule.doubt_limits, threshold, 0.31, 0.98]).astype(np.float32)
    below, above = (np.nextafter(ends, np.float32(to)) for to in (-1, 2))
    for prob in np.concatenate([ends, below, above]).clip(0, 1):
        score = np.array([prob])
        leak = 1 if detector.rule.decide(score)[0] else 0
        expected = network.UNDECIDED if detector.rule.in_doubt(score)[0] else leak
        pooled = verdict(torch.from_numpy(score), torch.tensor([True]), mel, NO_MOMENTS)
        assert int(pooled.decision) == expected


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


def test_every_network_is_tried() -> None:
    assert set(NETWORKS) == set(model.NETWORKS)


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
