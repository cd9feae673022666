import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from leakdet.core.errors import InputError, SettingsError
from leakdet.detection.drift import FEWEST
from leakdet.detection.familiarity import SpectralReference
from leakdet.learning.preparation import moved_sites, prepare
from leakdet.storage.model_file import load_mel_detector, save_model
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
    assert sentence.startswith("B7 sounds unlike")
    assert "dB" in sentence


def test_of_too_few_recordings_or_an_unknown_training_nothing_is_said(
    detector, learner, planted, write_store
) -> None:
    assert moved_sites(detector, split_of(planted, write_store, FEWEST - 1, 30.0)) == []
    plain = load_mel_detector(learner.model)
    split = split_of(planted, write_store, FEWEST, 30.0)
    assert moved_sites(replace(plain, reference=None), split) == []


def test_a_new_sensor_is_learnt_alone(learner, tmp_path: Path) -> None:
    found = prepare(learner.config(learner.new()), tmp_path)
    assert (found.approach.name, found.material.train) == ("target", None)
    assert found.counts() == {"leak": 4, "no_leak": 4}
    assert "sensor C is new" in found.introduction()
    assert found.held_out is None


def test_a_known_sensor_is_learnt_beside_the_store(learner, tmp_path: Path) -> None:
    found = prepare(learner.config(learner.new(sensor="A")), tmp_path)
    assert found.approach.name == "joint"
    assert found.material.train is not None
    assert found.material.train.recordings == 12


def test_recordings_that_the_model_has_met_are_told_and_not_learnt_twice(
    learner, write_store, tmp_path: Path
) -> None:
    known = [learner.recording(number, "A") for number in range(4)]
    fresh = [learner.recording(number, "A") for number in range(500, 504)]
    found = prepare(learner.config(write_store(train=[*known, *fresh])), tmp_path)
    text = found.introduction()
    assert re.search(r"met 4 of .*\(0\.wav", text)
    assert re.search("4 of .* in the store already", text)
    assert found.counts() == {"leak": 2, "no_leak": 2}


def test_a_dig_corrects_the_store(learner, write_store, tmp_path: Path) -> None:
    dug = [learner.recording(0, "A", label="other")]  # a leak in the store
    fresh = [learner.recording(number, "A") for number in range(500, 504)]
    found = prepare(learner.config(write_store(train=[*dug, *fresh])), tmp_path)
    assert re.search(r"opposite label.*: 0\.wav", found.introduction())
    assert found.splits["train"].recordings == 11
    assert found.counts() == {"leak": 2, "no_leak": 3}


def test_another_signal_is_refused(learner, tmp_path: Path) -> None:
    old = load_mel_detector(learner.model)
    signal = {**old.card["signal"], "fmin_hz": 200.0}
    save_model(learner.model, old.network.state_dict(), {**old.card, "signal": signal}, old.met)
    with pytest.raises(InputError, match=r"signal .*\(model / store\): fmin_hz"):
        prepare(learner.config(learner.new()), tmp_path)


def test_joint_needs_the_store(learner, tmp_path: Path) -> None:
    config = learner.config(learner.new(), "data.store=null", "learn.from=joint")
    with pytest.raises(SettingsError, match=r"data\.store .*given"):
        prepare(config, tmp_path)
    assert prepare(learner.config(learner.new(), "data.store=null"), tmp_path).splits == {}


def test_one_class_alone_is_refused(learner, planted, write_store, tmp_path: Path) -> None:
    new = write_store(train=[planted("leak", seed=700 + n, name=f"{n}") for n in range(6)])
    with pytest.raises(SettingsError, match=r"6 .*with a leak and 0 without"):
        prepare(learner.config(new), tmp_path)


def test_a_model_without_its_signal_cannot_read_sound(learner, tmp_path: Path) -> None:
    old = load_mel_detector(learner.model)
    card = json.loads(json.dumps({**old.card, "signal": None}))
    save_model(learner.model, old.network.state_dict(), card, old.met)
    with pytest.raises(InputError, match=r"does not say .*signal"):
        prepare(learner.config(learner.new()), tmp_path)


def test_no_unverified_recording_of_a_judged_site_trains_in_its_fold(
    learner, tmp_path: Path
) -> None:
    found = prepare(learner.config(learner.new(8)), tmp_path)  # sites C25 and C26
    unverified = pooled([open_labelled(learner.new(16), "train")])  # C25 to C28
    unverified.groups["site"][-1] = ""  # it may be of any site
    found = replace(found, added=replace(found.added, unverified=unverified))
    for judged, other in (("C25", "C26"), ("C26", "C25")):
        rows = np.flatnonzero(found.added.split.groups["site"] == other)
        fold = found.for_fold(rows)
        assert fold.unverified is not None
        assert set(fold.unverified.groups["site"]) == {"C25", "C26", "C27", "C28"} - {judged}
        assert fold.unverified.recordings == 11
    only = replace(found, added=replace(found.added, unverified=unverified.take(rows, "train")))
    assert only.for_fold(np.delete(np.arange(8), rows)).unverified is None
