"""Recordings that a model has met are counted, named and kept out of its results."""

from dataclasses import replace
from pathlib import Path
from shutil import copyfile

import h5py
import pytest

from leakdet.detection.met_recordings import MetRecordings
from leakdet.errors import InputError
from leakdet.evaluation.met_in_training import judged_apart, met_sentences
from leakdet.evaluation_run import compared, evaluated
from leakdet.scoring.audio_detector import Detector, load_detector
from leakdet.storage.hdf5 import seal_h5
from leakdet.storage.opening import open_split


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
    assert met_sentences(met) == [
        f"Not judged: all {met['met']} recordings were met in training, so they are no evidence."
    ]
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
    assert "scores say nothing about a new site" in messages.text


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
            f"No conclusion: A has met {n} of {n} recordings in training, B 0 of {n}"
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
            assert comparison["sentence"].endswith(
                f" {left} of {everything.recordings} recordings were met in training by A or B "
                "and are left out."
            )
    with pytest.raises(InputError, match=r"together they have met all of test .* a store built"):
        compared(known, evaluated(having_met(0, 1, 2), mixed_store, "test"))
    unknown = Detector(replace(detector.mel_detector, met=None), detector.path)
    doubted = compared(known, evaluated(unknown, mixed_store, "test"))[0].metrics["comparison"]
    assert doubted["n"] == 3
    assert doubted["sentence"] == (
        "No conclusion: whether B met these recordings in training is unknown."
    )


def test_damage_is_found_before_anything_is_scored(
    mixed_store: Path, detector: Detector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copyfile(mixed_store / "test.h5", tmp_path / "test.h5")
    with h5py.File(tmp_path / "test.h5", "r+") as file:
        file["mel"][-1, 0, 0, 0] += 1.0  # of a recording that the model has met
    seal_h5(tmp_path / "test.h5")
    monkeypatch.setattr(type(detector.mel_detector), "window_scores", None)
    with pytest.raises(InputError, match="its mel is not what was written"):
        evaluated(detector, tmp_path, "test")
