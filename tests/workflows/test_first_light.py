"""From audio to verdicts by commands: build, train, evaluate, predict, outside the checkout."""

import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from leakdet.config import DecisionConfig, MeasuredTrainConfig
from leakdet.detection.decision import DecisionRule
from leakdet.evaluation.groups import sensor_rows
from leakdet.evaluation.split_scores import score_split
from leakdet.runs import training
from leakdet.storage.model_file import load_mel_detector
from leakdet.storage.opening import open_split


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_run_leaves_everything_in_its_folder(trained):
    names = {path.name for path in trained.folder.iterdir()}
    assert {
        "model.safetensors",
        "metrics.json",
        "recordings.csv",
        "checkpoints",
        "logs",
        ".hydra",
    } <= names
    kept = {path.name for path in (trained.folder / "checkpoints").iterdir()}
    assert {"best_f1.ckpt", "best_loss.ckpt", "last.ckpt"} <= kept
    assert [path.name for path in trained.folder.parent.iterdir()] == ["run"]


def test_the_demo_is_learnt_and_tested_on_other_sites(trained):
    metrics = json.loads((trained.folder / "metrics.json").read_text())
    assert metrics["test"]["recording"]["auroc"] > 0.8
    train, test = (open_split(trained.store, name).groups["site"] for name in ("train", "test"))
    assert not set(train) & set(test)


def test_one_line_says_where_the_data_is_kept(trained):
    (line,) = [line for line in trained.printed.splitlines() if line.startswith("data  ")]
    assert re.fullmatch(r"data +0\.\d\d GB, kept in memory \([\d.]+ GB free\)", line), line


def test_train_evaluate_and_predict_agree(trained, door, tmp_path: Path):
    metrics = json.loads((trained.folder / "metrics.json").read_text())
    result = door(
        "evaluate", trained.model, trained.store, "--split", "val", "--out", "eval", cwd=tmp_path
    )
    assert result.returncode == 0, result.stderr
    evaluated = json.loads((tmp_path / "eval" / "metrics.json").read_text())
    assert evaluated["val"] == metrics["val"]
    assert f"{metrics['val']['recording']['f1']:.4f}" in trained.printed
    assert evaluated["decision_rule"] == metrics["decision_rule"]

    by_id = {row["recording_id"]: row for row in rows(tmp_path / "eval" / "recordings.csv")}
    audio = [trained.store / name for name in by_id]
    predict = ("predict", trained.model, *audio)
    decided = ("--unfamiliar", "off", "--doubt", "0")
    result = door(*predict, "--out", "predictions.csv", *decided, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    missing = "missing  no sounds without a pipe"
    assert [said.count(missing) for said in (trained.printed, result.stdout + result.stderr)] == [
        1,
        1,
    ]
    for predicted in rows(tmp_path / "predictions.csv"):
        scored = by_id[str(Path(predicted["path"]).relative_to(trained.store))]
        assert float(predicted["leak_prob"]) == pytest.approx(float(scored["leak_prob"]), abs=1e-5)
        assert predicted["decision"] == scored["decision"]
        assert predicted["windows"] == scored["windows"]
        assert predicted["leak_windows"] == scored["leak_windows"]
        assert float(predicted["familiarity"]) == pytest.approx(
            float(scored["familiarity"]), abs=2e-3
        )

    assert evaluated["unfamiliar"]["recordings"] == len(audio)
    result = door(*predict, "--out", "strict.csv", "--unfamiliar", "strict", cwd=tmp_path)
    strict = rows(tmp_path / "strict.csv")
    unfamiliar = [row for row in strict if float(row["familiarity"]) > 0.8]
    assert [row for row in strict if row["reason"] == "unfamiliar"] == unfamiliar
    lower, upper = DecisionRule.from_json(evaluated["decision_rule"]).doubt_limits
    close = [row for row in strict if lower < float(row["leak_prob"]) < upper]
    doubt = [row for row in close if row not in unfamiliar]
    assert [row for row in strict if row["reason"] == "doubt"] == doubt
    for row in strict:
        reason = "doubt" if row in close else ""
        reason = "unfamiliar" if float(row["familiarity"]) > 1.0 else reason
        assert by_id[str(Path(row["path"]).relative_to(trained.store))]["reason"] == reason
    assert f"{len(doubt)} of {len(strict)} " in result.stderr + result.stdout or not doubt
    assert f"{len(unfamiliar)} unfamiliar" in result.stderr
    assert result.returncode == 0  # undecided is a verdict, no failure


def test_a_refused_verdict_is_a_result_and_no_failure(trained, door, tmp_path: Path):
    words = ("--split", "train", "--log", "full", "--out", "met")
    words += ("--doubt", "0.49999", "--unfamiliar", "off")
    result = door("evaluate", trained.model, trained.store, *words, cwd=tmp_path)
    assert result.returncode == 0
    assert "Not judged: all " in result.stdout
    assert "Recordings met in training (no evidence)" in result.stdout
    assert "Recordings (95" not in result.stdout
    metrics = json.loads((tmp_path / "met" / "metrics.json").read_text())
    assert metrics["decision_rule"]["doubt"] == 0.49999
    assert metrics["train"]["coverage"]["undecided"].keys() == {"doubt"}


def test_the_threshold_is_the_one_fitted_on_val(trained):
    rule = load_mel_detector(trained.model).rule
    assert rule.fitted_on == "val"
    val = score_split(load_mel_detector(trained.model), open_split(trained.store, "val"))
    from leakdet.detection.decision import fit_rule

    again = fit_rule(
        val.window_prob, val.split.recording_offsets, val.is_leak, DecisionConfig(), fitted_on="val"
    )
    assert again.threshold == rule.threshold


def test_a_checkpoint_alone_can_be_evaluated_and_predict(trained, door, tmp_path: Path):
    alone = tmp_path / "alone.ckpt"
    shutil.copy(trained.folder / "checkpoints" / "best_f1.ckpt", alone)
    result = door("evaluate", alone, trained.store, "--split", "val", "--out", "eval", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    evaluated = json.loads((tmp_path / "eval" / "metrics.json").read_text())["val"]["recording"]
    expected = json.loads((trained.folder / "metrics.json").read_text())["val"]["recording"]
    assert evaluated["f1"] == expected["f1"]
    (recording,) = list((trained.store / "audio").rglob("*.wav"))[:1]
    assert door("predict", alone, recording, cwd=tmp_path).returncode == 0


def test_the_model_file_holds_its_provenance(trained):
    detector = load_mel_detector(trained.model)
    card = detector.card
    assert detector.signal is not None
    assert (
        card["signal_hash"]
        == detector.signal.hash
        == open_split(trained.store, "train").signal.hash
    )
    assert card["training"]["settings"]["demo"]["sites"] == 10
    assert card["training"]["recordings"]["train"] == open_split(trained.store, "train").recordings
    metrics = json.loads((trained.folder / "metrics.json").read_text())
    assert card["metrics"]["val"] == {
        "recording": metrics["val"]["recording"],
        "window": metrics["val"]["window"],
        "sensors": sensor_rows(metrics["val"]["groups"]),
    }


def test_a_store_of_another_signal_is_refused(trained, door, tmp_path: Path):
    audio = trained.store / "manifest.csv"
    built = door(
        "build",
        f"source={audio}",
        "out=other",
        "signal.n_mels=32",
        "split.group_by=[site]",
        cwd=tmp_path,
    )
    assert built.returncode == 0, built.stderr
    result = door("evaluate", trained.model, "other", cwd=tmp_path)
    assert result.returncode == 2
    assert "n_mels: 64 / 32" in result.stderr
    assert "Traceback" not in result.stderr


def test_shuffled_labels_end_at_chance(demo_store: Path, door, tmp_path: Path):
    """The mean over five permutations: with a dozen test recordings, one may be lucky."""
    result = door(
        "train",
        "experiment=smoke",
        "data.shuffle_labels=true",
        "data.shuffle_repeats=5",
        "data.negatives=synthetic",
        "log=full",
        f"data.cache={tmp_path}",
        "logger=none",
        "hydra.run.dir=null-run",
        f"data.store={demo_store}",
        cwd=tmp_path,
    )
    assert result.returncode == 0, result.stderr
    assert "LABELS ARE SHUFFLED" in result.stdout
    assert "no made-up sounds: a null test" in result.stdout
    assert not list(tmp_path.glob("negatives-*"))
    assert "4 more trainings" in result.stdout
    null = json.loads((tmp_path / "null-run" / "metrics.json").read_text())["audit"]["null_run"]
    assert len(null["permutations"]) == 5
    assert null["auroc"] == pytest.approx(np.mean(null["permutations"]))
    assert null["auroc"] < 0.7
    assert np.std(null["permutations"]) > 0.05
    low, high = null["interval"]
    assert low <= 0.5 <= high
    assert not list((tmp_path / "null-run").glob(".training-*"))


@pytest.fixture
def few_files(trained, tmp_path: Path) -> Path:
    good = sorted((trained.store / "audio").rglob("*.wav"))[:2]
    folder = tmp_path / "in"
    folder.mkdir()
    shutil.copy(good[0], folder / "a good one.wav")
    (folder / "b-empty.wav").touch()
    (folder / "c-text.WAV").write_text("no sound")
    soundfile.write(folder / "d-header.wav", np.zeros(0), 16000)
    shutil.copy(good[1], folder / "e[1],=~'é\n.wav")
    (folder / "notes.txt").write_text("not audio")
    return folder


def test_bad_files_are_rows_with_an_error_and_stop_nothing(
    trained, door, tmp_path: Path, few_files: Path
):
    words = ("in", "--out", "p.csv", "--windows", "--doubt", "0")
    result = door("predict", trained.model, *words, cwd=tmp_path)
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    predicted = rows(tmp_path / "p.csv")
    assert [bool(row["decision"]) for row in predicted] == [True, False, False, False, True]
    assert [Path(row["path"]).name for row in predicted][-1] == "e[1],=~'é\n.wav"
    assert "0 bytes" in predicted[1]["error"]
    assert "not readable" in predicted[2]["error"]
    assert "no sound" in predicted[3]["error"]
    for row in (predicted[0], predicted[4]):
        assert 0 <= float(row["leak_prob"]) <= 1
        assert row["decision"] == (
            "leak" if float(row["leak_prob"]) >= float(row["threshold"]) else "no_leak"
        )
    timeline = rows(tmp_path / "p.windows.csv")
    assert len(timeline) == sum(int(row["windows"] or 0) for row in predicted)
    assert all(
        float(t["window_end_s"]) <= float(predicted[0]["duration_s"])
        for t in timeline
        if t["path"] == predicted[0]["path"]
    )


def test_scores_do_not_depend_on_order_workers_or_format(
    trained, door, tmp_path: Path, few_files: Path
):
    good = [few_files / "a good one.wav", few_files / "e[1],=~'é\n.wav"]
    first = door("predict", trained.model, *good, "--workers", "1", cwd=tmp_path)
    second = door(
        "predict",
        trained.model,
        *reversed(good),
        "--workers",
        "2",
        "--format",
        "jsonl",
        "--windows",
        cwd=tmp_path,
    )
    assert (first.returncode, second.returncode) == (0, 0)
    one = {
        row["path"]: float(row["leak_prob"])
        for row in csv.DictReader(first.stdout.splitlines(keepends=True))
    }
    two = {row["path"]: row for row in map(json.loads, second.stdout.splitlines())}
    assert {path: row["leak_prob"] for path, row in two.items()} == one
    assert all(len(row["timeline"]) == row["windows"] for row in two.values())


def test_wrong_usage_ends_with_one_sentence_and_exit_code_2(trained, door, tmp_path: Path):
    (tmp_path / "nothing").mkdir()
    cases = [
        ("predict", (trained.model, "nothing"), "no audio found"),
        ("predict", ("absent.safetensors", trained.store / "audio"), "no such model file"),
        (
            "predict",
            (trained.model, trained.store / "audio", "--device", "cuda:7"),
            "not available here",
        ),
        ("predict", (trained.model, trained.store / "audio", "--windows"), "needs --out"),
        ("evaluate", (trained.model, tmp_path / "nowhere"), "no such store"),
        ("evaluate", (trained.model, tmp_path / "nothing"), "holds no HDF5 files"),
        ("train", ("data.store=nowhere",), "no such file or folder"),
        ("train", ("network.dropout=2",), "network.dropout=2"),
        ("train", ("netwrk.dropout=0.2",), "netwrk"),
        ("train", (f"data.store={trained.store}", "loss=focal"), "multiply"),
        (
            "train",
            (f"data.store={trained.store}", "labels.leak=BURST"),
            '"BURST"',
        ),
        ("train", (f"data.store={trained.store}", "+trainer.max_epoch=2"), "max_epoch"),
        ("build", ("source=nowhere", "out=x"), "nowhere: no such"),
        ("build", ("source=nowhere",), "out must be given"),
    ]
    for verb, arguments, message in cases:
        result = door(verb, *arguments, cwd=tmp_path)
        assert result.returncode == 2, (verb, arguments, result.stderr)
        assert message in result.stderr, (verb, arguments, result.stderr)
        assert "Traceback" not in result.stderr


def test_a_refused_run_takes_no_other_runs_place(trained, door, tmp_path: Path):
    runs = tmp_path / "runs" / "train"
    (runs / "earlier").mkdir(parents=True)
    (runs / "latest").symlink_to("earlier")
    result = door("train", f"data.store={trained.store}", "labels.leak=BURST", cwd=tmp_path)
    assert result.returncode == 2
    assert sorted(path.name for path in runs.iterdir()) == ["earlier", "latest"]
    assert (runs / "latest").resolve() == runs / "earlier"


@pytest.mark.parametrize(
    ("words", "measured"),
    [
        ((), True),
        (("experiment=smoke",), False),
        (("-m", "seed=1"), False),
        (("-m", "seed=1", "crossval.folds=3"), True),
    ],
)
def test_smoke_runs_and_jobs_of_a_sweep_are_not_measured_by_folds(
    words: tuple[str, ...], measured: bool, trained, door, tmp_path: Path, monkeypatch: Any
) -> None:
    given: list[object] = []
    monkeypatch.setattr(training, "train_in", lambda folder, config, extra: given.append(config))
    result = door("train", trained.store, *words, "logger=none", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert [isinstance(config, MeasuredTrainConfig) for config in given] == [measured]
