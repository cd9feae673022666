"""Scores that a model file keeps."""

import numpy as np
import pytest

from leakdet.detection.kept_scores import MOST, ValidationScores

RNG = np.random.default_rng(0)
TRUTH = np.arange(200) % 2 == 1
SCORES = np.clip(0.3 * TRUTH + 0.7 * RNG.random(200), 0.0, 1.0)


def test_many_recordings_are_thinned_evenly_by_class_and_rank() -> None:
    truth = RNG.random(3 * MOST) < 0.1
    scores = RNG.random(3 * MOST)
    kept = ValidationScores.of(scores, truth)
    assert len(kept.scores) == MOST
    assert kept.is_leak.mean() == pytest.approx(truth.mean(), abs=1e-4)
    for share in (0.01, 0.5, 0.99):
        expected = np.quantile(scores[~truth], share)
        assert np.quantile(kept.scores[~kept.is_leak], share) == pytest.approx(expected, abs=1e-3)


def test_tensors_come_back_and_misfits_are_refused() -> None:
    tensors = ValidationScores(SCORES, TRUTH).tensors()
    back = ValidationScores.from_file(tensors)
    assert back is not None
    assert np.array_equal(back.scores, SCORES)
    assert np.array_equal(back.is_leak, TRUTH)
    assert ValidationScores.from_file({}) is None
    with pytest.raises(ValueError, match="fit together"):
        ValidationScores.from_file({**tensors, "val.is_leak": tensors["val.is_leak"][:3]})
