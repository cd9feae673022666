"""A multiclass model: training, model file, checkpoint, evaluate, predict, crossval agree."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from scipy.signal import butter, sosfilt

import leakdet
from leakdet.training import log_names

RATE_HZ = 16000
BANDS_HZ = {"gasket-leak": (1200, 2000), "Orifice-Leak": (3000, 5000), "pump": (400, 800)}
NAMES = ("gasket-leak", "Orifice-Leak", "ok", "pump")
LEAKS = "labels.leak=[gasket-leak,orifice-leak]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings of four classes, and of `unclear`, at eight sites; pump is not in test."""
    folder, rng = tmp_path_factory.mktemp("classes"), np.random.default_rng(0)
    rows = []
    for number in range(68):
        label = "unclear" if number >= 64 else NAMES[number % 4]
        sound = rng.normal(0, 0.02, 2 * RATE_HZ)
        if label in BANDS_HZ:
            band = butter(4, BANDS_HZ[label], "band", fs=RATE_HZ, output="sos")
            sound += 0.08 * sosfilt(band, rng.normal(0, 1, 2 * RATE_HZ))
        soundfile.write(folder / f"{number:02}.wav", sound, RATE_HZ)
        split = ("train", "train", "val", "test")[number // 4 % 4]
        split = "val" if (split, label) == ("test", "pump") else split
        # as several people spell it
        spelt = label.upper() if number % 3 == 0 else label
        rows.append((f"{number:02}.wav", spelt, split, f"S{number // 4 % 8}"))
    with (folder / "list.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("path", "label", "split", "site"), *rows])
    return folder


@pytest.fixture(scope="module")
def run(folder: Path, compose: Callable[..., Any]) -> leakdet.FitResult:
    from leakdet.building.builder import build_store

    settings = (f"source={folder / 'list.csv'}", LEAKS, "labels.ignore=unclear", "verify=off")
    build_store(compose("build", *settings, f"out={folder / 'store'}"))
    settings = (f"data.store={folder / 'store'}", "labels=multiclass", "logger=none")
    settings += ("network=linear", "trainer.max_epochs=8", "optimizer.lr=0.02", "seed=1")
    settings += ("trainer.enable_progress_bar=false", "decision.policy=max_f1", "patience=20")
    return leakdet.fit(leakdet.compose("train", [*settings]), folder / "run")


def test_training_tells_every_class_with_intervals(
    run: leakdet.FitResult, schema_errors: Callable[[object], list[str]]
) -> None:
    assert schema_errors(run.metrics) == []
    table = run.metrics["test"]["classes"]
    # spelt in two ways, and one class; what is ignored is none
    rows = {row["name"].casefold(): row for row in table["classes"]}
    assert sorted(rows) == sorted(map(str.casefold, NAMES))
    assert {name for name, row in rows.items() if row["leak"]} == {"gasket-leak", "orifice-leak"}
    pump = rows["pump"]
    assert (pump["n"], pump["f1"]) == (0, None)
    assert pump["undefined"]["f1"].startswith("no recording")
    assert table["macro_f1"] > 0.8
    binary = run.metrics["test"]["recording"]
    assert binary["positives"] == sum(row["n"] for row in table["classes"] if row["leak"])
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    assert '<h2 id="classes-heading">Classes</h2>' in page
    assert f"n/a: {pump['undefined']['f1']}" in page


def test_each_check_has_f1_and_confusion_matrix_of_the_classes(run: leakdet.FitResult) -> None:
    with (run.folder / log_names.HISTORY).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    best = rows[run.metrics["best_epoch"]]
    table = run.metrics["val"]["classes"]
    assert float(best[log_names.VAL_CLASS_F1]) == pytest.approx(table["macro_f1"])
    cells = [float(v) for k, v in best.items() if k.startswith(log_names.VAL_CLASS_CONFUSION)]
    assert np.reshape(cells, (4, 4)).tolist() == table["confusion"]


@pytest.mark.parametrize("file", ["model.safetensors", "checkpoints/best_f1.ckpt"])
def test_model_file_and_checkpoint_evaluate_to_what_training_said(
    run: leakdet.FitResult, folder: Path, file: str
) -> None:
    metrics = leakdet.evaluate_model(run.folder / file, folder / "store", device="cpu")
    assert metrics["test"]["classes"] == run.metrics["test"]["classes"]


def test_predict_the_api_and_the_evaluation_give_one_row(
    run: leakdet.FitResult, folder: Path, door: Callable[..., Any], tmp_path: Path
) -> None:
    with (run.folder / "recordings.csv").open(newline="", encoding="utf-8") as file:
        evaluated = {row["recording_id"]: row for row in csv.DictReader(file)}
    result = door("predict", run.model, folder, "--out", tmp_path / "p.csv", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "classes: " in result.stderr
    with (tmp_path / "p.csv").open(newline="", encoding="utf-8") as file:
        predicted = {Path(row["path"]).name: row for row in csv.DictReader(file)}
    names = [row["name"] for row in run.metrics["test"]["classes"]["classes"]]
    columns = ("class", *(f"prob_{name}" for name in names))
    verdicts = leakdet.load_detector(run.folder, device="cpu").predict([folder])
    by_name = {Path(str(verdict.path)).name: verdict for verdict in verdicts}
    for name, row in evaluated.items():
        of_predict, verdict = predicted[Path(name).name], by_name[Path(name).name]
        for column in (*columns[1:], "leak_prob"):
            assert float(of_predict[column]) == pytest.approx(float(row[column]), abs=2e-3)
        probs = {name: float(of_predict[f"prob_{name}"]) for name in names}
        assert verdict.class_prob == pytest.approx(probs)
        assert sum(probs.values()) == pytest.approx(1, abs=1e-5)
        leaks = sum(p for name, p in probs.items() if name.casefold().endswith("leak"))
        assert leaks == pytest.approx(float(of_predict["leak_prob"]), abs=1e-5)
        if verdict.decision == "undecided":
            assert verdict.class_name is None
        else:
            assert verdict.class_name == of_predict["class"] == max(probs, key=lambda n: probs[n])
            assert verdict.class_name == row["class"]


def test_crossval_tells_the_classes_of_held_out_recordings(
    folder: Path,
    run: leakdet.FitResult,
    door: Callable[..., Any],
    tmp_path: Path,
    schema_errors: Callable[[object], list[str]],
) -> None:
    settings = (f"data.store={folder / 'store'}", "labels=multiclass", "network=linear")
    settings += ("crossval.group_by=site", "crossval.folds=2", "trainer.max_epochs=4")
    result = door("crossval", *settings, "hydra.run.dir=cv", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    content = json.loads((tmp_path / "cv" / "metrics.json").read_text(encoding="utf-8"))
    assert schema_errors(content) == []
    (protocol,) = content["crossval"].values()
    assert [row["n"] for row in protocol["classes"]["classes"]] == [16] * 4
    with (tmp_path / "cv" / "predictions.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    right = sum(row["class"] == row["label"] for row in rows)
    assert protocol["classes"]["accuracy"] == pytest.approx(right / len(rows))
