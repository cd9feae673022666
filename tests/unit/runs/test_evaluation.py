"""A model on a split of a store: metrics, comparison and files."""

import json
from pathlib import Path

import numpy as np
import pytest

from leakdet.building.builder import build_store
from leakdet.building.report import notes
from leakdet.config import BuildConfig
from leakdet.core.errors import InputError
from leakdet.runs.evaluation import compared, evaluate_model, evaluated, write_evaluations
from leakdet.scoring.detector import Detector, load_detector
from leakdet.storage.opening import open_store
from leakdet.tables.read import read_csv


@pytest.fixture(scope="module")
def detector(example_files) -> Detector:
    return load_detector(example_files.model, device="cpu")


def test_a_path_and_a_detector_give_the_content_of_metrics_json(
    example_files, detector: Detector, schema_errors
) -> None:
    metrics = evaluate_model(str(example_files.model), str(example_files.store), device="cpu")
    assert schema_errors(metrics) == []
    assert metrics["splits"] == ["test"]
    assert metrics["model"] == str(example_files.model)
    assert metrics["test"]["recording"]["n"] == 4
    again = evaluate_model(detector, example_files.store)
    del metrics["created_at"], again["created_at"]
    assert again == metrics


def test_the_models_rule_is_applied_as_it_is(example_files, detector: Detector) -> None:
    evaluation = evaluated(detector, example_files.store, "val")
    assert evaluation.metrics["decision_rule"] == detector.mel_detector.rule.to_json()
    assert set(evaluation.recordings.threshold) == {detector.threshold}


def test_it_is_silent_but_for_what_is_logged(
    example_files, detector: Detector, messages, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = evaluate_model(detector, example_files.store)
    assert capsys.readouterr() == ("", "")
    assert "Recordings (95 % interval)" in messages.text
    for finding in metrics["audit"]["findings"]:
        assert f"audit    {finding}" in messages.messages


def test_two_models_are_compared_and_written_side_by_side(
    example_files, detector: Detector, tmp_path: Path, messages
) -> None:
    copy = Detector(detector.mel_detector, Path("copy.safetensors"))
    pair = [evaluated(one, example_files.store, "val") for one in (detector, copy)]
    written = compared(*pair)
    write_evaluations(written, tmp_path)
    comparison = json.loads((tmp_path / "comparison.json").read_text())
    for name, evaluation in zip("ab", written, strict=True):
        content = json.loads((tmp_path / name / "metrics.json").read_text())
        assert content["comparison"] == comparison == evaluation.metrics["comparison"]
        assert content["model"] == evaluation.metrics["model"]
        assert (tmp_path / name / "recordings.csv").exists()
    assert {row["difference"] for row in comparison["differences"]} <= {0.0, None}
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert all(name in page for name in comparison["names"])
    assert comparison["recordings"]["sentence"] in messages.text
    rows = read_csv(tmp_path / "comparison.csv", "rows")
    assert [row["recording_id"] for row in rows] == pair[0].recordings.recording_id.tolist()
    assert {(row["difference"], row["same_decision"]) for row in rows} == {("0.0", "1")}


def test_one_model_is_written_into_the_folder_itself(
    example_files, detector: Detector, tmp_path: Path
) -> None:
    write_evaluations([evaluated(detector, example_files.store, "val")], tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"metrics.json", "recordings.csv", "report.html", "figures"}


def test_groups_to_resample_by_are_the_stores(example_files, detector: Detector) -> None:
    metrics = evaluate_model(detector, example_files.store, group_by=["pipe"])
    assert metrics["group_by"] == ["pipe"]
    assert metrics["test"]["recording"]["intervals"]["unit"] == "pipe"
    with pytest.raises(InputError, match=r"no group site .*\['pipe'\]"):
        evaluate_model(detector, example_files.store, group_by=["site"])


def test_a_single_name_needs_no_list_and_an_open_store_no_path(
    example_files, detector: Detector
) -> None:
    metrics = evaluate_model(detector, open_store(example_files.store), group_by="pipe")
    assert metrics["group_by"] == ["pipe"]
    with pytest.raises(InputError, match="hiss"):
        evaluate_model(detector, example_files.store, ignore="hiss")


def test_what_is_missing_is_named(example_files, detector: Detector, tmp_path: Path) -> None:
    cases = [
        (tmp_path / "nowhere", "test", "no such store"),
        (tmp_path, "test", "no store.*leakdet build"),
        (example_files.store, "prod", "no prod split.* train, val, test"),
    ]
    for store, split, message in cases:
        with pytest.raises(InputError, match=message):
            evaluate_model(detector, store, split)


def test_a_store_and_its_sounds_give_the_same_probabilities_where_some_is_dead(
    example_files, detector: Detector, write_sound, messages, tmp_path: Path
) -> None:
    signal = detector.mel_detector.signal
    assert signal is not None
    noise = np.random.default_rng(0).normal(0, 0.1, 8000)
    half = np.concatenate([noise, np.zeros(8000)])
    sounds = {"whole": noise, "half": half, "stuck": np.full(8000, 0.3)}
    for split in ("train", "test"):
        for number, label in enumerate(("leak", "other")):
            for name, sound in sounds.items():
                louder = sound * (1 + number / 4 + (split == "test") / 8)
                write_sound(f"sounds/{split}/{label}/{name}.wav", rate_hz=4000, samples=louder)
    built = build_store(
        BuildConfig(source=f"{tmp_path}/sounds", out=f"{tmp_path}/store", signal=signal)
    )
    assert built.dead_windows > 0
    assert any("neither trained on" in note for note in notes(built))
    evaluation = evaluated(detector, tmp_path / "store", "test")
    scored = dict(zip(evaluation.recordings.recording_id, evaluation.recordings.score, strict=True))
    verdicts = {name: detector.predict(tmp_path / "sounds" / name) for name in scored}
    assert len(scored) == 4
    for name, verdict in verdicts.items():
        assert verdict.leak_prob == pytest.approx(scored[name], abs=1e-6)
    left_out = evaluation.metrics["without_sound"]
    assert len(left_out) == 2
    assert {detector.predict(tmp_path / "sounds" / name).decision for name in left_out} == {
        "undecided"
    }
    assert "2 recordings hold no sound (test)" in messages.text
