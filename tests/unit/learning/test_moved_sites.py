"""Sites whose sound has moved."""

from dataclasses import replace

import numpy as np
import pytest

from leakdet.detection.drift import FEWEST
from leakdet.detection.spectral_reference import SpectralReference
from leakdet.learning.moved_sites import moved_sites
from leakdet.storage.model_file import load_mel_detector
from leakdet.storage.opening import open_labelled
from leakdet.storage.views import pooled


@pytest.fixture
def detector(learner):
    """The old model, with a reference of training recordings that do not differ much."""
    found = load_mel_detector(learner.model)
    noise = np.random.default_rng(0).normal(0.0, 0.5, (60, 24))
    reference = SpectralReference.of(noise, np.arange(60) % 2 == 0)
    return replace(found, reference=reference)


def split_of(planted, write_store, count: int, bump_db: float):
    recordings = [
        planted(
            ("leak", "other")[n % 2], seed=n, bump_db=bump_db, groups={"site": "B7"}, name=f"{n}"
        )
        for n in range(count)
    ]
    return pooled([open_labelled(write_store(train=recordings), "train")])


def test_a_site_that_sounds_otherwise_is_named(detector, planted, write_store) -> None:
    (sentence,) = moved_sites(detector, split_of(planted, write_store, FEWEST, 30.0))
    assert sentence.startswith("B7 sounds otherwise: its band at ")
    assert "dB" in sentence


def test_of_too_few_recordings_or_an_unknown_training_nothing_is_said(
    detector, learner, planted, write_store
) -> None:
    assert moved_sites(detector, split_of(planted, write_store, FEWEST - 1, 30.0)) == []
    plain = load_mel_detector(learner.model)
    split = split_of(planted, write_store, FEWEST, 30.0)
    assert moved_sites(replace(plain, reference=None), split) == []
