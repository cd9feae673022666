"""The reference of a training split, from its store."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakdet.detection.band_features import band_features, window_moments
from leakdet.evaluation import training_reference as module
from leakdet.evaluation.split_scores import window_blocks
from leakdet.evaluation.training_reference import (
    _units,
    features_of,
    reference_sentence,
    training_reference,
)
from leakdet.storage.opening import open_split


@pytest.fixture
def store(write_store: Any, planted: Any) -> Path:
    """12 recordings of 6 pipes, and 3 of low weight that are no pipes."""
    recordings = [
        planted("leak" if n % 2 else "other", n, windows=3, groups={"pipe": str(n % 6)})
        for n in range(12)
    ]
    rain = [planted("other", 100 + n, windows=3, groups={"pipe": ""}, weight=0.1) for n in range(3)]
    return write_store(train=recordings + rain)


def group_by(store: Path, *columns: str) -> None:
    settings = {"settings": {"split": {"group_by": columns}}}
    (store / "build.json").write_text(json.dumps(settings))


def test_it_holds_pipe_recordings_and_no_negatives(store: Path) -> None:
    train = open_split(store, "train")
    reference = training_reference(store, train)
    assert reference is not None
    assert reference.facts["recordings"] == 12
    assert reference.facts["left_out"] == "recording"
    np.testing.assert_allclose(reference.kept, features_of(train)[:12])
    assert "single recordings" in reference_sentence(reference)


def test_limits_leave_out_the_groups_that_the_store_was_split_by(store: Path) -> None:
    train = open_split(store, "train")
    group_by(store, "pipe")
    reference = training_reference(store, train)
    assert reference is not None
    assert (reference.facts["left_out"], reference.facts["groups"]) == ("pipe", 6)
    assert "leaving out one pipe of 6 at a time" in reference_sentence(reference)
    # a recording of which all columns are blank is alone, as when the store is split
    assert _units(train, ["pipe"]).tolist() == [str(n % 6) for n in range(12)] + [
        "0012.wav",
        "0013.wav",
        "0014.wav",
    ]
    group_by(store, "site")  # a column that the split does not have
    unknown = training_reference(store, train)
    assert unknown is not None
    assert unknown.facts["left_out"] == "recording"


def test_of_very_many_recordings_some_are_drawn(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_READ", 10)
    train = open_split(store, "train")
    reference = training_reference(store, train)
    assert reference is not None
    assert reference.facts["recordings"] == 10


def test_too_few_recordings_are_said(write_store: Any, planted: Any) -> None:
    store = write_store(train=[planted("leak", 1), planted("other", 2)])
    reference = training_reference(store, open_split(store, "train"))
    assert reference is None
    assert "too few to say what is familiar" in reference_sentence(reference)


def test_features_are_those_of_each_recording(store: Path) -> None:
    train = open_split(store, "train")
    (mel,) = window_blocks(train)
    expected = band_features(window_moments(mel[3:6]).mean(axis=0))
    np.testing.assert_allclose(features_of(train)[1], expected)
