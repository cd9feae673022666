import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from leakdet.config import TuneConfig
from leakdet.tuning import trials
from leakdet.tuning.study import open_study
from leakdet.tuning.trials import (
    AUROC,
    OWNER,
    REASON,
    fail,
    finished,
    is_dead,
    ranked,
    requeue,
    requeue_dead,
    running,
    same_parameters,
    this_process,
    trial_folder,
)

Settings = Callable[..., TuneConfig]


def states(study: optuna.Study) -> list[TrialState]:
    return [trial.state for trial in study.trials]


def ask(study: optuna.Study, lr: float = 0.1) -> optuna.Trial:
    trial = study.ask()
    trial.suggest_float("lr", lr, lr)
    return trial


def test_only_an_ended_process_of_this_host_is_dead() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    owner = this_process() | {"pid": process.pid, "started_s": time.time()}
    process.wait()
    assert is_dead(owner)
    assert not is_dead(this_process())
    assert is_dead(this_process() | {"started_s": 1.0})  # the number was reused
    assert not is_dead(owner | {"host": "elsewhere"})


def test_trials_rank_by_value_then_by_auroc_then_by_number() -> None:
    study = optuna.create_study()
    for value, auroc in ((0.5, 0.9), (0.7, None), (0.7, 0.8), (0.7, 0.8), (0.9, 0.1)):
        trial = study.ask()
        trial.set_user_attr(AUROC, auroc)
        study.tell(trial, value)
    study.tell(study.ask(), state=TrialState.PRUNED)
    assert [trial.number for trial in ranked(study.trials, maximises=True)] == [4, 2, 3, 1, 0]
    assert [trial.number for trial in ranked(study.trials, maximises=False)] == [0, 2, 3, 1, 4]


def test_a_retried_trial_does_not_count_and_its_retry_has_its_parameters() -> None:
    study = optuna.create_study()
    ask(study)
    assert [trial.number for trial in running(study.trials)] == [0]
    requeue(study, study.trials[0], most=1)
    fail(study, study.trials[0], "why")
    fail(study, study.trials[0], "another worker was slower")
    assert states(study) == [TrialState.FAIL, TrialState.WAITING]
    assert study.trials[0].user_attrs[REASON] == "another worker was slower" or (
        study.trials[0].user_attrs[REASON] == "why"
    )
    assert finished(study.trials) == []
    again = ask(study, 0.1)
    assert again.params == study.trials[0].params
    requeue(study, study.trials[1], most=1)  # given up
    assert states(study) == [TrialState.FAIL, TrialState.RUNNING]


def test_a_trial_that_always_kills_its_process_is_given_up(settings: Settings) -> None:
    config = settings(n_trials=2, max_retries=2)
    study = open_study(config)
    dead = {**this_process(), "started_s": 1.0}  # the process number is used by another now
    for attempt in range(3):
        trial = study.ask()
        trial.suggest_float("lr", 1e-4, 1e-1, log=True)
        trial.set_user_attr(OWNER, dead)
        assert requeue_dead(study, 2) == [attempt]
    assert len({str(t.params) for t in study.trials}) == 1
    assert [len(finished(study.trials)), TrialState.WAITING in states(study)] == [1, False]


def test_a_trial_without_an_owner_is_queued_again_after_a_while(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = open_study(settings())
    ask(study)
    assert requeue_dead(study, 2) == []
    monkeypatch.setattr(trials, "OWNER_WITHIN_S", -1.0)
    assert requeue_dead(study, 2) == [0]
    assert "before it recorded its owner" in study.trials[0].user_attrs[REASON]


def test_a_running_trial_of_a_living_process_is_left_alone(settings: Settings) -> None:
    study = open_study(settings())
    ask(study).set_user_attr(OWNER, this_process())
    assert requeue_dead(study, 2) == []
    assert this_process()["pid"] == os.getpid()


def test_only_complete_trials_with_exactly_these_parameters_are_the_same() -> None:
    study = optuna.create_study()
    study.tell(ask(study, 0.1), 1.0)
    study.tell(ask(study, 0.2), state=TrialState.PRUNED)
    same = same_parameters(study, {"lr": 0.1}, number=9)
    assert same is not None
    assert same.number == 0
    assert same_parameters(study, {"lr": 0.1}, number=0) is None
    assert same_parameters(study, {"lr": 0.2}, number=9) is None
    assert same_parameters(study, {"lr": 0.1, "more": 1}, number=9) is None


def test_folders_of_trials_sort_by_number(tmp_path: Path) -> None:
    assert trial_folder(tmp_path, 12) == tmp_path / "trials" / "0012"
