from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from leakdet.acoustics.mel import band_centres_hz
from leakdet.evaluation.traits import fit_logistic, group_scores, mean_by, trait_scores, traits_of
from leakdet.storage.opening import open_split
from leakdet.storage.store import StoreSplit


def test_the_centroid_lies_where_the_energy_is(write_store: Any, planted: Any) -> None:
    store = write_store(train=[planted("leak", 1, bump_db=bump) for bump in (-60.0, 0.0, 60.0)])
    split = open_split(store, "train")
    low, middle, high = traits_of(split).values["spectral_centroid"]
    assert split.signal is not None
    centres = band_centres_hz(split.signal)
    assert centres[0] < low < middle < high < centres[-1]
    assert low < centres[5] < centres[6] < high


@pytest.fixture
def split(write_store: Any, planted: Any) -> StoreSplit:
    """Four recordings of 2, 2, 3 and 5 windows, the third 6 dB louder."""
    recordings = [
        planted("leak" if number % 2 else "other", seed=number, windows=windows, level_db=level_db)
        for number, (windows, level_db) in enumerate([(2, 0.0), (2, 0.0), (3, 6.0), (5, 0.0)])
    ]
    return open_split(write_store(train=recordings), "train")


def test_stored_facts_are_taken_as_they_are(split: StoreSplit) -> None:
    traits = traits_of(split)
    for name, dataset in (("loudness", "rms_dbfs"), ("duration", "duration_s")):
        np.testing.assert_allclose(traits.values[name], split.numbers(dataset, np.nan))
        assert traits.source[name] == f"{dataset} of the store"


def test_without_stored_facts_the_mel_and_the_windows_stand_in(
    split: StoreSplit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(self: StoreSplit, dataset: str, default: float) -> np.ndarray:
        return np.full(self.recordings, default)

    monkeypatch.setattr(StoreSplit, "numbers", absent)
    traits = traits_of(split)
    assert traits.values["duration"].tolist() == [2, 2, 3, 5]
    assert int(traits.values["loudness"].argmax()) == 2
    assert "no rms_dbfs" in traits.source["loudness"]
    missing = {"dc_offset", "clipped_fraction", "source_rate_hz", "mains_hum"}
    assert traits.missing.keys() == missing
    assert missing.isdisjoint(traits.values)
    assert traits.values.keys() == traits.source.keys()


def test_bands_are_free_of_level_and_belong_to_their_recordings(split: StoreSplit) -> None:
    traits = traits_of(split)
    np.testing.assert_allclose(traits.bands.mean(axis=1), 0.0, atol=1e-4)
    assert np.bincount(traits.band_recording).tolist() == [2, 2, 3, 5]
    third = traits.bands[traits.band_recording == 2].astype(np.float64).mean(axis=0)
    np.testing.assert_allclose(traits.spectrum[2], third)


def test_order_comes_from_a_column_of_times_before_file_names(
    write_store: Any, planted: Any
) -> None:
    groups = [
        {"timestamp": f"2026-03-0{day} 12:0{minute}", "session": f"day {day}"}
        for day, minute in ((2, 1), (1, 5), (2, 0), (1, 2), (3, 0))
    ]
    recordings = [planted("leak", seed=n, groups=columns) for n, columns in enumerate(groups)]
    traits = traits_of(open_split(write_store(train=recordings), "train"))
    assert traits.values["recording_order"].tolist() == [3, 1, 2, 0, 4]
    assert traits.values["recording_order_in_session"].tolist() == [1.0, 1.0, 0.0, 0.0, 0.5]
    assert traits.source["recording_order"] == "the column timestamp"


@pytest.mark.parametrize("c", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("separable", [False, True])
def test_logistic_regression_equals_scikit_learns(c: float, separable: bool) -> None:
    rng = np.random.default_rng(3)
    # the last is constant
    features = rng.normal(size=(80, 6)) * [1, 10, 0.1, 1, 1, 0] + [0, 5, -2, 0, 0, 7]
    value = features[:, 0] - 0.2 * features[:, 1]
    is_leak = value > -1.0 if separable else value + rng.normal(size=80) > -1.0
    ours = fit_logistic(features, is_leak, c)
    deviation = np.where(features.std(0) > 0, features.std(0), 1.0)
    scaled = (features - features.mean(0)) / deviation
    reference = LogisticRegression(C=c, tol=1e-10, max_iter=10_000).fit(scaled, is_leak)
    np.testing.assert_allclose(ours.coef, reference.coef_[0], atol=1e-5)
    np.testing.assert_allclose(
        ours.prob(features), reference.predict_proba(scaled)[:, 1], atol=1e-6
    )


def test_a_trait_is_turned_by_the_training_recordings_and_never_by_those_it_scores() -> None:
    train, is_leak = np.array([1.0, 2.0, 3.0, 4.0]), np.array([True, True, False, False])
    test = np.array([9.0, -1.0])
    assert trait_scores(train, is_leak, test).tolist() == [-9.0, 1.0]
    assert trait_scores(train, ~is_leak, test).tolist() == [9.0, -1.0]


def test_a_groups_record_is_its_log_odds_over_the_average_and_nothing_for_a_stranger() -> None:
    train = np.array(["a", "a", "a", "b", "b", "b"])
    is_leak = np.array([True, True, True, False, False, True])
    share = 4 / 6
    scores = group_scores(train, is_leak, np.array(["a", "b", "c", ""]))
    of_a = np.log((3 + share) / (1 - share)) - np.log(share / (1 - share))
    of_b = np.log((1 + share) / (2 + 1 - share)) - np.log(share / (1 - share))
    np.testing.assert_allclose(scores, [of_a, of_b, 0.0, 0.0])


def test_means_are_taken_per_owner() -> None:
    assert mean_by(np.array([1.0, 5.0, 3.0]), np.array([1, 0, 1]), 3).tolist() == [5.0, 2.0, 0.0]
