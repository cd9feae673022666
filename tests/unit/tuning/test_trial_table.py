import logging
from collections.abc import Callable

import optuna
import pytest
from optuna.trial import TrialState

from leakdet.config import TuneConfig
from leakdet.tuning.trial_table import COLUMNS, TrialTable, checks_saved
from leakdet.tuning.trials import CHECKS, REASON

Settings = Callable[..., TuneConfig]


def add(
    study: optuna.Study, state: TrialState, checks: int, value: float | None = None
) -> optuna.Trial:
    trial = study.ask()
    trial.set_user_attr(CHECKS, checks)
    study.tell(trial, value, state=state)
    return trial


def test_saved_checks_count_against_the_mean_of_complete_trials() -> None:
    study = optuna.create_study()
    add(study, TrialState.PRUNED, 3)
    assert checks_saved(study.trials) == 0
    add(study, TrialState.COMPLETE, 10, 0.5)
    add(study, TrialState.COMPLETE, 20, 0.5)
    add(study, TrialState.PRUNED, 18)
    add(study, TrialState.FAIL, 1)
    assert checks_saved(study.trials) == 12


def test_a_line_for_each_trial_with_the_best_so_far_and_the_reason_of_a_failure(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "leakdet")
    study = optuna.create_study(direction="maximize")
    table = TrialTable(settings(n_trials=4).tune)
    table.head(study)
    add(study, TrialState.COMPLETE, 10, 0.75)
    table.row(study, 0)
    add(study, TrialState.PRUNED, 4)
    table.row(study, 1)
    failed = add(study, TrialState.COMPLETE, 10, 0.5)
    failed = study.ask()
    failed.set_user_attr(REASON, "out of memory")
    study.tell(failed, state=TrialState.FAIL)
    table.row(study, 3)
    head, first, second, third, reason = caplog.messages
    assert tuple(head.split()) == COLUMNS
    assert first.split()[:7] == ["0", "complete", "0.7500", "0.7500", "(trial", "0)", "10"]
    assert second.split()[:8] == ["1", "pruned", "-", "0.7500", "(trial", "0)", "4", "6"]
    assert third.split()[:6] == ["3", "fail", "-", "0.7500", "(trial", "0)"]
    assert third.split()[-2:] == ["0", "s"]  # left
    assert reason.strip() == "failed: out of memory"


def test_a_worker_beside_the_first_prints_no_head(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "leakdet")
    TrialTable(settings(worker=1).tune).head(optuna.create_study())
    assert caplog.messages == []
