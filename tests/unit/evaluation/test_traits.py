"""Traits from the mel, the stored facts and the names of recordings."""

from typing import Any

from leakdet.acoustics.mel import band_centres_hz
from leakdet.evaluation.traits import traits_of
from leakdet.storage.opening import open_any_split


def test_the_centroid_lies_where_the_energy_is(write_store: Any, planted: Any) -> None:
    store = write_store(train=[planted("leak", 1, bump_db=bump) for bump in (-60.0, 0.0, 60.0)])
    split = open_any_split(store, "train")
    low, middle, high = traits_of(split).values["spectral_centroid"]
    assert split.signal is not None
    centres = band_centres_hz(split.signal)
    assert centres[0] < low < middle < high < centres[-1]
    assert low < centres[5] < centres[6] < high
