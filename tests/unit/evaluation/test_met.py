import json
import re
from dataclasses import replace
from pathlib import Path
from shutil import copyfile
from typing import Any

import h5py
import numpy as np
import pytest

from leakdet.core.errors import InputError
from leakdet.detection.decision import DecisionRule
from leakdet.detection.met import MetRecordings
from leakdet.detection.networks import band_features, window_moments
from leakdet.evaluation import met
from leakdet.evaluation.met import (
    _units,
    features_of,
    judged_apart,
    met_sentences,
    reference_sentence,
    training_rates,
    training_reference,
    unfamiliar_account,
    unfamiliar_sentence,
)
from leakdet.evaluation.scored_recordings import csv_rows
from leakdet.evaluation.split_scores import window_blocks
from leakdet.runs.evaluation import compared, evaluated
from leakdet.scoring.detector import Detector, load_detector
from leakdet.storage.hdf5 import seal_h5
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
    reference = training_reference(store, [train])
    assert reference is not None
    assert reference.facts["recordings"] == 12
    assert reference.facts["left_out"] == "recording"
    np.testing.assert_allclose(reference.kept, features_of(train)[:12])
    assert "single recordings" in reference_sentence(reference)


def test_limits_leave_out_the_groups_that_the_store_was_split_by(store: Path) -> None:
    train = open_split(store, "train")
    group_by(store, "pipe")
    reference = training_reference(store, [train])
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
    unknown = training_reference(store, [train])
    assert unknown is not None
    assert unknown.facts["left_out"] == "recording"


def test_of_very_many_recordings_some_are_drawn(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(met, "MAX_READ", 10)
    train = open_split(store, "train")
    reference = training_reference(store, [train])
    assert reference is not None
    assert reference.facts["recordings"] == 10


def test_too_few_recordings_are_said(write_store: Any, planted: Any) -> None:
    store = write_store(train=[planted("leak", 1), planted("other", 2)])
    reference = training_reference(store, [open_split(store, "train")])
    assert reference is None
    assert "too few" in reference_sentence(reference)


def test_validation_recordings_that_chose_nothing_are_familiar_too(
    write_store: Any, planted: Any
) -> None:
    recordings = [planted("leak" if n % 2 else "other", n, windows=2) for n in range(12)]
    store = write_store(train=recordings[:8], val=recordings[8:])
    splits = [open_split(store, name) for name in ("train", "val")]
    assert training_reference(store, splits[:1]) is None
    reference = training_reference(store, splits)
    assert reference is not None
    assert reference.facts["recordings"] == 12
    np.testing.assert_allclose(reference.familiarity(features_of(splits[1])), 0, atol=1e-6)


def test_source_rates_are_counted_without_negatives_and_what_was_converted(
    store: Path, write_store: Any, planted: Any
) -> None:
    rates = training_rates(open_split(store, "train"))
    assert rates is not None
    assert rates.counts == {4000: (6, 6)}
    few = write_store(train=[planted("leak" if n % 2 else "other", n) for n in range(7)])
    assert training_rates(open_split(few, "train")) is None
    with h5py.File(store / "train.h5", "r+") as file:
        file["flags"][...] = ["converted"] * 15
    seal_h5(store / "train.h5")
    assert training_rates(open_split(store, "train")) is None


def test_features_are_those_of_each_recording(store: Path) -> None:
    train = open_split(store, "train")
    (mel,) = window_blocks(train)
    expected = band_features(window_moments(mel[3:6]).mean(axis=0))
    np.testing.assert_allclose(features_of(train)[1], expected)


def test_the_undecided_are_counted_and_the_others_judged(scored) -> None:
    recordings = replace(scored(4), score=np.array([0.9, 0.8, 0.2, 0.1]))  # leak, other, …
    assert unfamiliar_account(recordings, DecisionRule()) is None
    assert unfamiliar_sentence(None) == ""
    known = replace(recordings, familiarity=np.array([0.1, 1.5, 0.9, 0.2]))
    account = unfamiliar_account(known, DecisionRule())
    assert account is not None
    assert (account["undecided"], account["decided_wrongly"]) == (1, 1)
    assert account["ids"] == [recordings.recording_id[1]]
    assert (account["median_familiarity"], account["max_familiarity"]) == (0.55, 1.5)
    assert re.search("^1 of 4 recordings .*count it.* other 3, 1 ", unfamiliar_sentence(account))
    strict = unfamiliar_account(known, DecisionRule(unfamiliar="strict"))
    off = unfamiliar_account(known, DecisionRule(unfamiliar="off"))
    assert strict is not None
    assert off is not None
    assert (strict["undecided"], strict["decided_wrongly"]) == (2, 0)
    assert (off["undecided"], off["decided_wrongly"]) == (0, 2)
    assert unfamiliar_sentence(off) == ""
    assert unfamiliar_sentence(strict).startswith("2 of 4 recordings ")
    all_new = unfamiliar_sentence({**account, "undecided": 4})
    assert all_new.endswith("count them.")
    assert [row["familiarity"] for row in csv_rows(known)] == [0.1, 1.5, 0.9, 0.2]


@pytest.fixture(scope="module")
def detector(trained) -> Detector:
    return load_detector(trained.folder, device="cpu")


@pytest.fixture(scope="module")
def mixed_store(trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose test split is the training's, but for three recordings of other content."""
    folder = tmp_path_factory.mktemp("mixed")
    copyfile(trained.store / "train.h5", folder / "test.h5")
    with h5py.File(folder / "test.h5", "r+") as file:
        for row in (0, 1, 2):
            file["content_sha256"][row] = f"{row + 1:032x}" * 2
    seal_h5(folder / "test.h5")
    return folder


@pytest.mark.parametrize("split", ["train", "val"])
def test_a_models_own_recordings_are_no_evidence(trained, detector: Detector, split: str) -> None:
    metrics = evaluated(detector, trained.store, split).metrics
    met = metrics["met_in_training"]
    assert met["met"] == met["recordings"] == met[split] == len(met["ids"])
    (sentence,) = met_sentences(met)
    assert sentence.startswith(f"Not judged: all {met['met']} recordings ")
    assert met["recording"]["n"] == met["met"]


def test_new_recordings_are_judged_without_the_met_ones(
    mixed_store: Path, detector: Detector, messages, schema_errors
) -> None:
    everything = open_split(mixed_store, "test")
    evaluation = evaluated(detector, mixed_store, "test")
    metrics = evaluation.metrics
    assert evaluation.recordings.recording_id.tolist() == everything.recording_ids[:3].tolist()
    assert metrics["test"]["recording"]["n"] == 3
    assert metrics["met_in_training"]["met"] == everything.recordings - 3
    assert f"{everything.recordings - 3} of {everything.recordings} recordings" in messages.text
    assert schema_errors(metrics) == []


def test_groups_that_the_model_has_met_are_named(trained, detector: Detector, messages) -> None:
    metrics = evaluated(detector, trained.store, "val").metrics
    assert metrics["groups_met"]["site"]["met"] == metrics["groups_met"]["site"]["values"]
    assert "about a new site" in messages.text


def test_the_test_split_of_a_store_split_by_site_is_new(trained, detector: Detector) -> None:
    metrics = evaluated(detector, trained.store, "test").metrics
    assert metrics["met_in_training"]["met"] == 0
    assert metrics["groups_met"]["site"]["met"] == 0
    assert met_sentences(metrics["met_in_training"]) == []


def test_what_is_not_known_is_said(trained, detector: Detector) -> None:
    split = open_split(trained.store, "test")
    known, detector.mel_detector.met = detector.mel_detector.met, None
    try:
        judged, account = judged_apart(detector.mel_detector, split)
    finally:
        detector.mel_detector.met = known
    assert judged is split
    assert account is None
    assert "unknown" in met_sentences(account)[0]


def test_a_checkpoint_has_met_what_its_run_has_met(trained) -> None:
    checkpoint = load_detector(trained.folder / "checkpoints" / "last.ckpt", device="cpu")
    met = evaluated(checkpoint, trained.store, "train").metrics["met_in_training"]
    assert met["met"] == met["recordings"]


def test_models_are_not_compared_by_what_one_of_them_has_met(
    trained, detector: Detector, mixed_store: Path
) -> None:
    new = Detector(replace(detector.mel_detector, met=MetRecordings.of({}, {})), detector.path)
    pair = [evaluated(one, trained.store, "val") for one in (detector, new)]
    n = len(pair[0].recordings)
    for evaluation in compared(*pair):
        assert evaluation.metrics["comparison"]["sentence"].startswith(
            f"No conclusion: A has met {n} of {n} recordings"
        )


def test_models_are_compared_by_what_neither_has_met(detector: Detector, mixed_store: Path) -> None:
    """The test split has three recordings that `detector` has not met; others have met some."""
    everything = open_split(mixed_store, "test")

    def having_met(*rows: int) -> Detector:
        contents = everything.texts("content_sha256")[list(rows)]
        met = MetRecordings.of({"train": contents.tolist()}, {})
        return Detector(replace(detector.mel_detector, met=met), detector.path)

    known = evaluated(detector, mixed_store, "test")
    for others, n in (((), 3), ((0,), 2), ((0, 5), 2)):
        for pair in (
            (known, other := evaluated(having_met(*others), mixed_store, "test")),
            (
                other,
                known,
            ),
        ):
            comparison = compared(*pair)[0].metrics["comparison"]
            left = everything.recordings - n
            assert comparison["n"] == n
            assert f" {left} of {everything.recordings} recordings " in comparison["sentence"]
    with pytest.raises(InputError, match=r"met all of test .* a store built"):
        compared(known, evaluated(having_met(0, 1, 2), mixed_store, "test"))
    unknown = Detector(replace(detector.mel_detector, met=None), detector.path)
    doubted = compared(known, evaluated(unknown, mixed_store, "test"))[0].metrics["comparison"]
    assert doubted["n"] == 3
    assert doubted["sentence"].startswith("No conclusion: whether B ")


def test_damage_is_found_before_anything_is_scored(
    mixed_store: Path, detector: Detector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copyfile(mixed_store / "test.h5", tmp_path / "test.h5")
    with h5py.File(tmp_path / "test.h5", "r+") as file:
        file["mel"][-1, 0, 0, 0] += 1.0  # of a recording that the model has met
    seal_h5(tmp_path / "test.h5")
    monkeypatch.setattr(type(detector.mel_detector), "window_scores", None)
    with pytest.raises(InputError, match=r"test\.h5: .*mel"):
        evaluated(detector, tmp_path, "test")
