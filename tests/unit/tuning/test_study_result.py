import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest

from leakdet._messages import LOG
from leakdet.config import TrainConfig, TuneConfig
from leakdet.errors import LeakdetError
from leakdet.tuning import study_result
from leakdet.tuning.study import open_study
from leakdet.tuning.study_result import (
    balance_sentence,
    counts,
    finish,
    tied_with_best,
    winner,
    write_trials,
)
from leakdet.tuning.trials import AUROC, CHECKS, CONFUSION, LEAK_SHARE

Settings = Callable[..., TuneConfig]
Tuned = Callable[..., optuna.Study]


def no_training(folder: Path, config: TrainConfig) -> dict[str, Any]:
    raise AssertionError("nothing is to be trained")


def note_only(config: TrainConfig, note: str) -> str:
    return f"# {note}\n"


def test_ties_go_to_the_higher_auroc(settings: Settings) -> None:
    study = open_study(settings())
    for auroc in (0.6, 0.9, 0.8):
        trial = study.ask()
        trial.set_user_attr(AUROC, auroc)
        study.tell(trial, 0.75)
    assert winner(study, maximises=True).number == 1
    assert tied_with_best(study, maximises=True) == 3


def test_every_trial_is_a_row_of_the_table_and_counted_by_state(
    settings: Settings, tuned: Tuned, tmp_path: Path
) -> None:
    study = tuned(settings(n_trials=12, n_warmup=1, n_min_trials=2))
    write_trials(study, tmp_path / "trials.csv")
    with (tmp_path / "trials.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["number"]) for row in rows] == list(range(12))
    assert [row["state"] for row in rows] == [trial.state.name for trial in study.trials]
    assert rows[0].keys() >= {"tp", "fp", "fn", "leak_share"}
    for row, trial in zip(rows, study.trials, strict=True):
        assert float(row["lr"]) == trial.params["lr"]
        assert row["value"] == ("" if trial.value is None else str(trial.value))
    found = counts(study)
    assert found["complete"] + found["pruned"] == 12
    assert found["checks"] == sum(int(row[CHECKS]) for row in rows)


def test_the_counts_of_a_trial_stand_in_its_row(settings: Settings, tmp_path: Path) -> None:
    study = open_study(settings())
    for confusion in ({"tn": 5, "fp": 1, "fn": 2, "tp": 4}, None):
        trial = study.ask()
        trial.set_user_attr(CONFUSION, confusion)
        study.tell(trial, 0.75)
    write_trials(study, tmp_path / "trials.csv")
    with (tmp_path / "trials.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [[row[name] for name in ("tp", "fp", "fn")] for row in rows] == [
        ["4", "1", "2"],
        ["", "", ""],
    ]


def test_what_the_winner_weighs_is_told_with_all_that_multiplies(settings: Settings) -> None:
    study = open_study(settings())
    trial = study.ask()
    study.tell(trial, 0.75)
    tuned = settings().training()
    tuned.data.sampling = "balanced"
    tuned.loss.name, tuned.loss.leak_weight_boost = "weighted_ce", 2.5
    best = winner(study, maximises=True)
    assert balance_sentence(best, tuned) == ""
    best.set_user_attr(LEAK_SHARE, 0.714)
    assert balance_sentence(best, tuned) == (
        "balance  in the winner's loss leaks weigh 71% "
        "(data.sampling=balanced times loss.leak_weight_boost=2.5)"
    )


def test_a_failing_page_costs_neither_result_nor_models(
    settings: Settings, tuned: Tuned, trained: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result is written first, and the same command does not train again."""
    metrics = json.loads((trained.folder / "metrics.json").read_text(encoding="utf-8"))
    trainings = []

    def train(folder: Path, config: TrainConfig) -> dict[str, Any]:
        trainings.append(folder.name)
        shutil.copy(trained.model, folder)
        return metrics

    def fail(*_: Any) -> None:
        raise LeakdetError("no page")

    config = settings(n_trials=2)
    folder = Path(config.tune.folder)
    study = tuned(config)
    with monkeypatch.context() as broken:
        broken.setattr(study_result, "write_page", fail)
        with pytest.raises(LeakdetError):
            finish(config, study, train, note_only)
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    assert "verdict" in result
    assert (folder / "best" / "model.safetensors").is_file()
    assert finish(config, study, train, note_only) == 0
    assert trainings == ["untuned", "best"]
    assert (folder / "tune.html").is_file()


def test_the_result_is_written_once_and_again_after_more_trials(
    settings: Settings, tuned: Tuned
) -> None:
    config = settings(n_trials=2, finish=False)
    path = Path(config.tune.folder) / "result.json"
    for trials in (2, 2, 3):
        config = settings(n_trials=trials, finish=False)
        study = tuned(config)
        assert finish(config, study, no_training, note_only) == 0
        result = json.loads(path.read_text(encoding="utf-8"))
        assert result["trials"]["complete"] == trials
        assert result["best"]["value"] == study.best_value
        note = (path.parent / "best.yaml").read_text(encoding="utf-8")
        assert note.startswith(f"# study default, trial {study.best_trial.number} of {trials}")


def test_a_damaged_result_is_written_anew(
    settings: Settings,
    tuned: Tuned,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Hydra disables the logger, and raises the root's level for the tests that follow
    monkeypatch.setattr(LOG, "disabled", False)
    caplog.set_level("WARNING", LOG.name)
    config = settings(n_trials=2, finish=False)
    study = tuned(config)
    path = Path(config.tune.folder) / "result.json"
    path.write_text("{", encoding="utf-8")
    assert finish(config, study, no_training, note_only) == 0
    assert json.loads(path.read_text(encoding="utf-8"))["trials"]["complete"] == 2
    assert "not the result of a study" in caplog.text


def test_trials_of_other_hosts_are_waited_for(settings: Settings, tuned: Tuned) -> None:
    config = settings(n_trials=2, finish=False)
    study = tuned(config)
    study.ask()
    assert finish(config, study, no_training, note_only) == 1
    assert not (Path(config.tune.folder) / "result.json").exists()


def test_without_a_complete_trial_the_reasons_are_told(settings: Settings, tuned: Tuned) -> None:
    config = settings(n_trials=3)
    study = tuned(config, lambda config: [float("nan")] * 3)
    with pytest.raises(LeakdetError, match=r"0 of 3 trials completed.*never a finite number"):
        finish(config, study, no_training, note_only)
