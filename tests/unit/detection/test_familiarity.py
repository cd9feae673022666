"""What is familiar: the sound of training, and the limits found inside it."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from leakdet.detection.decision import MARGIN
from leakdet.detection.familiarity import (
    FEWEST,
    MAX_KEPT,
    MIN_GROUPS,
    SpectralReference,
    covering,
    shrunk_covariance,
)

F = 12


def places(count: int, per_place: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, leak labels and place of recordings; places differ more than recordings do."""
    rng = np.random.default_rng(seed)
    place = np.repeat(np.arange(count), per_place)
    features = rng.normal(0, 3, (count, F))[place] + rng.normal(0, 1, (len(place), F))
    is_leak = rng.random(len(place)) < 0.5
    features[is_leak, 0] += 2.0
    return features, is_leak, place.astype(str)


def test_new_places_are_familiar_and_foreign_sounds_are_not() -> None:
    features, is_leak, place = places(80, 10)
    known = np.arange(len(place)) < 400
    reference = SpectralReference.of(features[known], is_leak[known], place[known], "site")
    assert reference is not None
    assert (reference.facts["left_out"], reference.facts["groups"]) == ("site", 40)
    assert (reference.familiarity(features[~known]) > 1).mean() <= 0.05
    assert reference.familiarity(features[:5]) == pytest.approx(0.0, abs=1e-6)  # training itself
    foreign = np.random.default_rng(1).normal(0, 20, (50, F))
    assert (reference.familiarity(foreign) > 1).all()


def test_without_groups_single_recordings_are_left_out() -> None:
    features, is_leak, place = places(8, 8)
    grouped = SpectralReference.of(features, is_leak, place, "site")
    few = (place.astype(int) % (MIN_GROUPS - 1)).astype(str)  # too few to tell how places differ
    for group in (None, np.full(len(place), "same"), few):
        alone = SpectralReference.of(features, is_leak, group, "site")
        assert alone is not None
        assert grouped is not None
        assert alone.facts["left_out"] == "recording"
        assert alone.facts["nearest_db"] < grouped.facts["nearest_db"]


def test_a_limit_is_the_margin_times_the_95th_percentile_of_what_was_left_out() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(0, 1, (40, F))
    reference = SpectralReference.of(features, np.arange(40) % 2 == 0)
    assert reference is not None
    distance = np.sqrt(((features[:, None] - features[None]) ** 2).mean(axis=2))
    np.fill_diagonal(distance, np.inf)
    expected = MARGIN * np.percentile(distance.min(axis=1), 95)
    assert reference.facts["nearest_db"] == pytest.approx(expected)


def test_too_few_recordings_tell_nothing_and_equal_ones_do_no_harm() -> None:
    features, is_leak, _ = places(1, FEWEST - 1)
    assert SpectralReference.of(features, is_leak) is None
    same = SpectralReference.of(np.ones((20, F)), np.arange(20) < 10)
    assert same is not None
    assert same.familiarity(np.ones((1, F)))[0] == 0.0
    assert np.isfinite(same.familiarity(np.zeros((1, F)))[0])


def test_a_model_file_gives_it_back() -> None:
    reference = SpectralReference.of(*places(6, 6), "site")
    assert reference is not None
    again = SpectralReference.from_file(reference.tensors(), reference.facts)
    assert again is not None
    asked = places(3, 3, seed=5)[0]
    np.testing.assert_allclose(
        again.familiarity(asked), reference.familiarity(asked), rtol=1e-5, atol=1e-5
    )
    assert SpectralReference.from_file({}, None) is None
    for name, tensor in reference.tensors().items():
        for wrong in ({}, {name: tensor[:, 1:]}, {name: tensor[0]}):
            tensors = {k: v for k, v in reference.tensors().items() if k != name} | wrong
            with pytest.raises(ValueError, match="spectral reference"):
                SpectralReference.from_file(tensors, reference.facts)


def test_of_more_recordings_than_are_kept_the_distribution_is_kept_too() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(0, 1, (MAX_KEPT + 500, 4))
    features[:20] *= 50  # far away: all of them are kept
    is_leak = rng.random(len(features)) < 0.5
    whole = SpectralReference.of(features[:300], is_leak[:300])
    thinned = SpectralReference.of(features, is_leak)
    assert whole is not None
    assert thinned is not None
    assert whole.distribution is whole.kept
    assert "reference.quantiles" not in whole.tensors()
    again = SpectralReference.from_file(thinned.tensors(), thinned.facts)
    assert again is not None
    assert again.distribution is not None
    expected = np.quantile(features, [0.05, 0.5, 0.95], axis=0)
    np.testing.assert_allclose(again.distribution[[5, 50, 95]], expected, rtol=1e-4, atol=1e-4)
    old = {name: of for name, of in thinned.tensors().items() if "quantiles" not in name}
    unknown = SpectralReference.from_file(old, thinned.facts)
    assert unknown is not None
    assert unknown.distribution is None
    wrong = {**thinned.tensors(), "reference.quantiles": thinned.tensors()["reference.kept"][:, :2]}
    with pytest.raises(ValueError, match="quantiles"):
        SpectralReference.from_file(wrong, thinned.facts)


def test_what_is_kept_covers_the_rest() -> None:
    rng = np.random.default_rng(0)
    clusters = rng.normal(0, 50, (20, F))
    features = np.repeat(clusters, 30, axis=0) + rng.normal(0, 0.1, (600, F))
    kept = covering(features, 20)
    assert len(set((kept // 30).tolist())) == 20  # one of each cluster
    assert covering(features, 600).tolist() == list(range(600))
    assert len(set(covering(np.ones((30, F)), 10).tolist())) == 10  # equal ones too


def test_shrinkage_is_that_of_few_and_of_many() -> None:
    rng = np.random.default_rng(0)
    scale = np.linspace(1, 4, F)
    few, many = (rng.normal(0, scale, (n, F)) for n in (5, 200_000))
    assert np.linalg.cond(shrunk_covariance(few)) < 1e3
    np.testing.assert_allclose(shrunk_covariance(many), np.diag(scale**2), atol=0.15)


def test_the_nearest_recording_is_the_one_that_an_exhaustive_search_finds() -> None:
    rng = np.random.default_rng(0)
    trained, new = rng.normal(0.0, 5.0, (300, 16)), rng.normal(0.0, 5.0, (200, 16))
    found = SpectralReference.of(trained, np.arange(300) % 2 == 0)
    assert found is not None
    nearest = cdist(new, trained).min(1) / 4 / found.facts["nearest_db"]
    spread = cdist(new @ found.whitening, found.means @ found.whitening).min(1)
    expected = np.sqrt(nearest * spread / found.facts["mahalanobis"])
    np.testing.assert_allclose(found.familiarity(new), expected, rtol=1e-6)
    assert (found.familiarity(trained) == 0.0).all()
