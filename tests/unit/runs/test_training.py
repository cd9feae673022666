"""A training run from store to model file, metrics and report."""

import json
import os
import random
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from lightning.pytorch.utilities.rank_zero import rank_zero_only

from leakdet.cli.compose import compose
from leakdet.config import TrainConfig
from leakdet.core.errors import InputError, SettingsError
from leakdet.core.messages import LOG
from leakdet.detection.stored_scores import redecided
from leakdet.reporting.training_figures import read_history
from leakdet.runs import training as training_run
from leakdet.runs.crossval import folds_of_few
from leakdet.runs.evaluation import evaluate_model
from leakdet.runs.training import FitResult, fit, train_in
from leakdet.storage.model_file import load_mel_detector
from leakdet.training import log_names
from leakdet.training.callbacks.stopping import Interrupted


@pytest.fixture(scope="module")
def config(example_files) -> TrainConfig:
    store = f"data.store={example_files.store}"
    return compose(
        "train",
        [
            store,
            "network=linear",
            "trainer.max_epochs=2",
            "logger=none",
            "stop.name=val",
            "callbacks.loader_wait=false",  # on a busy machine it warns, rightly
        ],
    )


@pytest.fixture(scope="module")
def result(config: TrainConfig, tmp_path_factory: pytest.TempPathFactory) -> FitResult:
    return fit(config, tmp_path_factory.mktemp("fit") / "run")


def test_a_program_that_trains_finds_all_as_it_left_it(
    config: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a launcher started it as one of several that have nothing to do with each other."""

    def state() -> dict[str, Any]:
        return {
            "environment": dict(os.environ),
            "filters": warnings.filters[:],
            "random": random.getstate()[1][:-1],  # but its place, since the type checks draw too
            "numpy": np.random.get_state()[1].tolist(),  # noqa: NPY002
            "torch": torch.get_rng_state().tolist(),
            "threads": torch.get_num_threads(),
        }

    monkeypatch.setenv("SLURM_PROCID", "2")
    monkeypatch.setenv("SLURM_NTASKS", "4")
    monkeypatch.setattr(rank_zero_only, "rank", 2)
    before = state()
    result = fit(replace(config, threads=1), tmp_path / "run")
    assert state() == before
    load_mel_detector(result.model)
    assert state() == before
    assert (result.folder / "history.csv").exists()


def test_the_result_is_what_lies_in_the_folder(result: FitResult, schema_errors: Any) -> None:
    assert result.model == result.folder / "model.safetensors"
    assert json.loads((result.folder / "metrics.json").read_text()) == result.metrics
    assert schema_errors(result.metrics) == []
    assert result.warnings == []
    names = {path.name for path in result.folder.iterdir()}
    assert {"report.html", "recordings.csv", "history.csv", "checkpoints", "figures"} <= names


def test_words_in_place_of_settings_are_answered_with_how_to_make_them(tmp_path: Path) -> None:
    """In a process whose arguments no test checks."""
    code = "import leakdet; leakdet.fit(['seed=1'], 'run')"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert """leakdet.compose("train", ['seed=1'])""" in run.stderr
    assert not (tmp_path / "run").exists()


def test_the_model_file_has_the_best_weights_the_fitted_rule_and_where_it_comes_from(
    result: FitResult, example_files
) -> None:
    detector = load_mel_detector(result.model)
    best = load_mel_detector(result.folder / "checkpoints" / "best_f1.ckpt")
    for mine, theirs in zip(detector.network.parameters(), best.network.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    assert detector.rule.to_json() == result.metrics["decision_rule"]
    assert (detector.rule.fitted_on, detector.rule.doubt) == ("val", 0.2)
    assert detector.sources is not None
    assert {rate: sum(counts) for rate, counts in detector.sources.counts.items()} == {4000: 8}
    assert best.sources is None  # a checkpoint
    scores = detector.validation
    assert scores is not None
    again, _ = redecided(detector.rule, scores, policy=detector.rule.policy)
    assert again == detector.rule
    assert detector.tested is not None
    table = result.metrics["test"]["recording"]
    called = detector.rule.decide(detector.tested.scores)
    assert int(detector.tested.is_leak.sum()) == table["positives"]
    assert int((called & detector.tested.is_leak).sum()) == table["tp"]
    training = detector.card["training"]
    assert training["store"] == str(example_files.store)
    assert training["recordings"] == {"train": 8, "val": 4}
    assert set(training["versions"]) == {"python", "leakdet", "torch", "lightning"}
    assert training["epoch"] == result.metrics["best_epoch"]


def test_evaluating_the_model_gives_the_metrics_of_its_training(
    result: FitResult, example_files
) -> None:
    for split in ("val", "test"):
        metrics = evaluate_model(result.model, example_files.store, split, device="cpu")
        assert metrics[split] == result.metrics[split]


def test_without_finishing_nothing_is_scored_or_saved(config: TrainConfig, tmp_path: Path) -> None:
    assert train_in(tmp_path, config, finish=False) is None
    names = {path.name for path in tmp_path.iterdir()}
    assert "checkpoints" in names
    assert names.isdisjoint({"model.safetensors", "metrics.json", "report.html"})


def test_a_folder_with_a_run_and_a_missing_store_are_refused(
    config: TrainConfig, result: FitResult, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match="holds a run already"):
        fit(config, result.folder)
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match=r"file: .*needs a folder"):
        fit(config, tmp_path / "file")
    with pytest.raises(InputError, match="nowhere"):
        fit(compose("train", ["data.store=nowhere"]), tmp_path / "run")


@pytest.mark.parametrize(("number", "error"), [(2, KeyboardInterrupt), (15, Interrupted)])
def test_a_program_sees_ctrl_c_as_python_has_it(
    number: int,
    error: type[BaseException],
    config: TrainConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "last.ckpt").touch()
    train: Callable[..., Any] = Mock(side_effect=Interrupted(number, tmp_path / "last.ckpt"))
    monkeypatch.setattr(training_run, "train_in", train)
    with pytest.raises(error, match=r"last\.ckpt"):
        fit(config, tmp_path)


class Ruined(pl.Callback):
    """Spoils the weights after the last epoch's steps, before its validation check."""

    def on_train_batch_end(
        self, trainer: "pl.Trainer", pl_module: "pl.LightningModule", *_: Any
    ) -> None:
        if trainer.current_epoch == 2 and trainer.fit_loop.epoch_loop.batch_progress.is_last_batch:
            with torch.no_grad():
                for parameter in pl_module.parameters():
                    parameter.neg_()


def test_the_result_is_that_of_the_best_check_not_of_the_last(
    demo_store: Path, door: Callable[..., Any], tmp_path: Path
) -> None:
    quiet = ["logger=none", "trainer.enable_progress_bar=false", "data.batch_size=16"]
    smoke = compose("train", ["experiment=smoke", f"data.store={demo_store}", *quiet])
    metrics = train_in(tmp_path / "run", smoke, [Ruined()])
    assert metrics is not None
    history = read_history(tmp_path / "run" / log_names.HISTORY)
    f1 = history[log_names.VAL_F1]
    assert f1[2] < f1[:2].max()
    assert metrics["val"]["recording"]["f1"] == pytest.approx(f1.max())
    assert metrics["best_epoch"] in (0, 1)
    model, only_val = tmp_path / "run" / training_run.MODEL, ("--split", "val", "--out", "again")
    done = door("evaluate", model, demo_store, *only_val, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    again = json.loads((tmp_path / "again" / "metrics.json").read_text(encoding="utf-8"))
    assert again["val"]["recording"]["f1"] == metrics["val"]["recording"]["f1"]


def test_a_profile_is_told_and_drawn(
    config: TrainConfig,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LOG, "disabled", False)  # Hydra disables it in a test before
    caplog.set_level("INFO", LOG.name)
    fit(replace(config, profile="phases"), tmp_path / "phases")
    assert "Where the time went" in caplog.text
    assert (tmp_path / "phases" / "figures" / "profile.png").exists()
    fit(replace(config, profile="trace", profile_steps=1), tmp_path / "trace")
    assert re.search("nothing was recorded: .* 10 steps", caplog.text)


@pytest.fixture
def few(site_store: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of 24 recordings at three sites, which build has divided by its defaults."""
    build = {"divided_by": "build", "settings": {"split": {"group_by": ["site"]}}}
    (site_store / "build.json").write_text(json.dumps(build))
    monkeypatch.setattr("leakdet.config.crossval.FEW_RECORDINGS", 200)
    return site_store


def test_few_recordings_all_train_and_folds_measure_the_model(
    few: Path, tmp_path: Path, schema_errors: Any, messages
) -> None:
    settings = ["network=linear", "trainer.max_epochs=2", "logger=none", "callbacks=none"]
    settings += ["trainer.enable_progress_bar=false", f"data.store={few}"]
    result = fit(compose("train", settings), tmp_path / "run")
    metrics = result.metrics
    assert "trains   all 24 recordings" in messages.text
    assert "3 folds then measure it (crossval.folds=0: none)" in messages.text
    assert schema_errors(metrics) == []
    assert (metrics["splits"], metrics["folds"], metrics["group_by"]) == (["held_out"], 3, ["site"])
    assert metrics["held_out"]["recording"]["n"] == 24
    assert metrics["recordings"] == {"train": 24, "val": 0}
    folds = json.loads((result.folder / "crossval" / "metrics.json").read_text())["crossval"]
    of_folds, of_run = folds["leave-out-site"]["recording"], metrics["held_out"]["recording"]
    assert {**of_folds, "intervals": 0} == {**of_run, "intervals": 0}
    shown = [{**table["intervals"], "unit": ""} for table in (of_folds, of_run)]
    assert shown[0] == shown[1]
    detector = load_mel_detector(result.model)
    assert detector.card["verdict"]["split"] == "held_out"
    assert detector.tested is not None
    assert detector.validation is not None
    assert len(detector.tested.scores) == len(detector.validation.scores) == 24
    assert "3 folds" in (result.folder / "report.html").read_text(encoding="utf-8")
    again = evaluate_model(result.model, few, device="cpu")
    assert again["met_in_training"]["met"] == again["met_in_training"]["recordings"]


@pytest.mark.parametrize(
    "words",
    [
        ["crossval.folds=0"],
        ["data.shuffle_labels=true"],
        ["trainer=debug"],
        ["trainer.devices=2"],
        ["init_from=nowhere"],
    ],
)
def test_no_folds_where_they_are_not_wanted_or_would_say_nothing(
    few: Path, words: list[str]
) -> None:
    assert folds_of_few(compose("train", words), few) is None


def test_a_split_that_somebody_chose_is_obeyed_unless_folds_are_asked_for(
    few: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = compose("train", ["crossval.folds=2", "crossval.group_by=recording"])
    by_default = compose("train", [])
    assert folds_of_few(by_default, few) is not None
    monkeypatch.setattr("leakdet.config.crossval.FEW_RECORDINGS", 0)
    monkeypatch.setattr("leakdet.config.crossval.FEW_OF_A_CLASS", 3)
    assert folds_of_few(by_default, few) is not None  # test has two of each class
    monkeypatch.setattr("leakdet.config.crossval.FEW_OF_A_CLASS", 0)
    assert folds_of_few(by_default, few) is None
    monkeypatch.setattr("leakdet.config.crossval.FEW_RECORDINGS", 200)
    for origin in ("source", "settings"):
        (few / "build.json").write_text(json.dumps({"divided_by": origin}))
        assert folds_of_few(by_default, few) is None
    folds = folds_of_few(asked, few)
    assert folds is not None
    assert len(folds.tasks) == 2
