"""Sentences of predict on sites that sound or score otherwise."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from leakdet.detection.detector import MelDetector
from leakdet.detection.familiarity import SpectralReference
from leakdet.detection.stored_scores import ValidationScores
from leakdet.scoring.drift import SiteDrift
from leakdet.storage.model_file import load_mel_detector
from leakdet.tables.schema import Verdict

DAYS, PER_DAY = 10, 4


@pytest.fixture
def detector(example_files) -> MelDetector:
    """A detector that says what its training sounded like and how it scored."""
    loaded = load_mel_detector(example_files.model)
    assert loaded.signal is not None
    rng = np.random.default_rng(0)
    features = rng.normal(0, 3, (60, 2 * loaded.signal.n_mels))
    return replace(
        loaded,
        reference=SpectralReference.of(features, np.arange(60) < 30),
        validation=ValidationScores.of(rng.random(60), np.arange(60) < 30),
    )


def verdicts(detector: MelDetector, shift_db: float = 0.0, score: float = 0.2) -> list[Verdict]:
    """Recordings of one site in time order; from the sixth day on another sound and score."""
    assert detector.signal is not None
    bands, rng = detector.signal.n_mels, np.random.default_rng(1)
    made = []
    for number in range(DAYS * PER_DAY):
        later = number // PER_DAY >= 5
        features = rng.normal(0, 3, 2 * bands).astype(np.float32)
        features[3] += shift_db * later
        prob = (score if later else 0.2) + 0.01 * rng.random()
        path = f"site/{number:02}.wav"
        made.append(Verdict(path, "leak", prob, 0.5, features=features))
    return made


def dated(of: list[Verdict]) -> list[Verdict]:
    """The same recordings with site and time, as a table tells them."""
    day = np.datetime64("2026-05-01T08:00:00")
    times = [day + np.timedelta64(number // PER_DAY, "D") for number in range(len(of))]
    return [
        replace(verdict, columns={"site": "mill", "recorded_at": str(time)})
        for verdict, time in zip(of, times, strict=True)
    ]


def taken(drift: SiteDrift, of: list[Verdict]) -> tuple[list[str], list[str]]:
    for verdict in of:
        drift.add(verdict)
    return drift.sentences()


def test_another_sound_is_told_with_its_band_and_day(detector: MelDetector) -> None:
    moved, notes = taken(SiteDrift(detector), dated(verdicts(detector, shift_db=-30.0)))
    (sentence,) = moved
    assert sentence.startswith(
        "mill sounds otherwise since 2026-05-06 (20 recordings): its band at"
    )
    assert "dB weaker than before" in sentence
    assert notes == ["1 site compared with training, 1 moved"]


def test_other_scores_are_told_with_both_medians(detector: MelDetector) -> None:
    moved, _ = taken(SiteDrift(detector), dated(verdicts(detector, score=0.9)))
    assert re.search(r"^mill .* 2026-05-06 \(20 recordings\): .*median leak_prob is 0\.9", moved[0])


def test_without_a_table_a_site_is_a_folder_and_times_are_unknown(detector: MelDetector) -> None:
    strange = verdicts(detector)
    for verdict in strange:
        assert verdict.features is not None
        verdict.features[2] += 60.0
    moved, notes = taken(SiteDrift(detector), strange)
    assert moved[0].startswith("site sounds unlike")
    assert "dB stronger" in moved[0]
    assert notes == ["1 folder compared with training, 1 moved"]
    assert taken(SiteDrift(detector), verdicts(detector)) == (
        [],
        ["1 folder compared with training, none moved"],
    )


def test_what_was_not_compared_is_said(detector: MelDetector) -> None:
    few = dated(verdicts(detector)[:19])
    moved, (note,) = taken(SiteDrift(detector), few)
    assert moved == []
    assert re.search("^sites were not compared: .* 20 recordings", note)
    unknown = replace(detector, reference=None)
    _, notes = taken(SiteDrift(unknown), dated(verdicts(detector)))
    assert len(notes) == 1
    assert re.search("^sites were not compared: .*model file", notes[0])
    assert taken(SiteDrift(unknown), verdicts(detector)) == ([], [])
    silent = [replace(verdict, features=None, leak_prob=None) for verdict in verdicts(detector)]
    assert taken(SiteDrift(detector), silent) == ([], [])


def test_sentences_are_logged(detector: MelDetector, messages) -> None:
    drift = SiteDrift(detector)
    taken(drift, dated(verdicts(detector, shift_db=40.0)))
    drift.log()
    assert messages.messages[0].startswith("drift    mill sounds otherwise since 2026-05-06")
    assert messages.messages[1] == "drift    1 site compared with training, 1 moved"


def test_predict_compares_the_sites_of_a_table(door, trained, tmp_path: Path) -> None:
    sounds = sorted((trained.store / "audio").glob("*/*.wav"))[:24]
    rows = [f"{sound},north,{1 + number // 3}.5.2026" for number, sound in enumerate(sounds)]
    (tmp_path / "night.csv").write_text("\n".join(["path,site,recorded_at", *rows]))
    result = door("predict", trained.folder, "night.csv", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "drift    1 site compared with training, none moved" in result.stderr
    heading, first, *others = result.stdout.splitlines()  # rows alone
    assert heading.startswith("path,site,recorded_at,decision,")
    assert first.startswith(f"{sounds[0]},north,2026-05-01,")
    assert len(others) == 23
    (tmp_path / "night.csv").write_text("file,place\n")
    result = door("predict", trained.folder, "night.csv", cwd=tmp_path)
    assert result.returncode == 2
    assert re.search(r"night\.csv: .*needs the column path", result.stderr)
    assert result.stderr.count("\n") == 1  # before the model is loaded
    result = door("predict", trained.folder, "night.csv", "--sites", "sites.csv", cwd=tmp_path)
    assert re.search(r"--sites was removed\. .*columns path, site", result.stderr)
