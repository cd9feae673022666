"""Pooling, rule and familiarity as operations on tensors, beside those in NumPy."""

import numpy as np
import pytest
import torch

from leakdet.detection.band_features import band_features, window_moments
from leakdet.detection.pooling import pool
from leakdet.detection.thresholds import NEVER
from leakdet.exporting import pooled_verdict
from leakdet.exporting.pooled_verdict import PooledVerdict, float32_at_least

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
    assert int(pooled.decision) == pooled_verdict.UNDECIDED


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
    assert int(whole.decision) == pooled_verdict.UNDECIDED
