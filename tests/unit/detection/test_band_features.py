"""Features of what a recording sounds like."""

from itertools import pairwise

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from leakdet.detection.band_features import FeatureSums, band_features, window_moments

BANDS = 5


def mel_of(windows: int, seed: int) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.normal(-60.0, 8.0, (windows, 3, BANDS, 2))).half()


def test_features_are_the_level_free_means_and_the_spreads() -> None:
    mel = mel_of(4, 0)
    level = mel.double().numpy().transpose(0, 1, 3, 2).reshape(-1, BANDS)
    features = band_features(window_moments(mel).mean(axis=0))
    np.testing.assert_allclose(features[:BANDS], level.mean(0) - level.mean(), atol=1e-4)
    np.testing.assert_allclose(features[BANDS:], level.std(0), atol=1e-4)


def test_level_does_not_matter() -> None:
    mel = mel_of(4, 1).float()
    quiet, loud = (band_features(window_moments(mel + d).mean(axis=0)) for d in (-16.0, 16.0))
    np.testing.assert_allclose(quiet, loud, atol=1e-4)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.integers(1, 12))
def test_blocks_of_any_size_give_the_features_of_each_recording(
    windows: list[int], block: int
) -> None:
    offsets = np.concatenate([[0], np.cumsum(windows)])
    mel = mel_of(int(offsets[-1]), 2)
    sums = FeatureSums(offsets, BANDS)
    for start in range(0, len(mel), block):
        sums.add(mel[start : start + block])
    alone = [band_features(window_moments(mel[a:b]).mean(axis=0)) for a, b in pairwise(offsets)]
    np.testing.assert_allclose(sums.features(), alone, atol=1e-9)
