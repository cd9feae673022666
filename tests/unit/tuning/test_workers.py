import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import optuna
import pytest
import torch
from optuna.trial import TrialState

from leakdet.config import TrainConfig, TuneConfig
from leakdet.core.errors import LeakdetError
from leakdet.core.process import signals_raise
from leakdet.tuning import workers
from leakdet.tuning.results import counts, winner
from leakdet.tuning.study import CHECKS, REASON, finished, trial_folder
from leakdet.tuning.workers import (
    COLUMNS,
    TrialTable,
    checks_saved,
    end_workers,
    start_workers,
    stop_code,
    stop_name,
    wait_for_workers,
)


@pytest.mark.parametrize(
    ("stop", "code", "name"),
    [
        (KeyboardInterrupt(), 130, "interrupted (Ctrl-C)"),
        (SystemExit(1), 130, "interrupted (Ctrl-C)"),  # of Lightning, on Ctrl-C
        (SystemExit(130), 130, "interrupted (Ctrl-C)"),
        (SystemExit(0), 143, "stopped by SIGTERM"),  # of Lightning, on SIGTERM
        (SystemExit(143), 143, "stopped by SIGTERM"),
        (SystemExit(129), 129, "stopped by SIGHUP"),
    ],
)
def test_every_way_to_stop_has_its_exit_code(stop: BaseException, code: int, name: str) -> None:
    assert (stop_code(stop), stop_name(stop)) == (code, name)


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


Tuned = Callable[..., optuna.Study]
Curve = Callable[[TrainConfig], list[float]]


def states(study: optuna.Study) -> list[TrialState]:
    return [trial.state for trial in study.trials]


def test_n_trials_is_the_total_over_runs(settings: Settings, tuned: Tuned) -> None:
    assert len(tuned(settings(n_trials=3)).trials) == 3
    assert len(tuned(settings(n_trials=5)).trials) == 5
    assert len(tuned(settings(n_trials=5)).trials) == 5


def test_out_of_memory_fails_its_trial_only(
    settings: Settings, tuned: Tuned, rising: Curve
) -> None:
    calls: list[int] = []

    def curve(config: TrainConfig) -> list[float]:
        calls.append(1)
        if len(calls) == 1:
            raise torch.OutOfMemoryError("tried to allocate 80 GiB")
        return rising(config)

    study = tuned(settings(n_trials=4), curve)
    assert states(study)[0] == TrialState.FAIL
    assert "out of memory" in study.trials[0].user_attrs[REASON]
    assert study.trials[0].value is None
    assert states(study)[1:].count(TrialState.FAIL) == 0
    assert len(study.trials) == 4
    assert "OutOfMemoryError" in (trial_folder(settings().tune.folder, 0) / "log.txt").read_text()


def test_nan_only_is_told_with_the_reasons(settings: Settings, tuned: Tuned) -> None:
    study = tuned(settings(n_trials=3), lambda config: [float("nan")] * 3)
    assert states(study) == [TrialState.FAIL] * 3
    with pytest.raises(LeakdetError, match=r"0 of 3 trials .*finite number"):
        winner(study, maximises=True)


@pytest.mark.parametrize(
    ("stop", "code"), [(KeyboardInterrupt(), 130), (SystemExit(1), 130), (SystemExit(0), 143)]
)
def test_an_interrupted_trial_fails_and_is_taken_up_again(
    settings: Settings, tuned: Tuned, stop: BaseException, code: int, rising: Curve
) -> None:
    calls: list[int] = []

    def curve(config: TrainConfig) -> list[float]:
        calls.append(1)
        if len(calls) == 2:
            raise stop
        return rising(config)

    config = settings(n_trials=4)
    with pytest.raises((KeyboardInterrupt, SystemExit)) as caught:
        tuned(config, curve)
    assert stop_code(caught.value) == code
    study = tuned(config, curve)
    assert states(study) == [TrialState.COMPLETE, TrialState.FAIL, *[TrialState.COMPLETE] * 3]
    assert len(finished(study.trials)) == 4
    assert study.trials[2].params == study.trials[1].params
    assert counts(study)["interrupted"] == 1


def test_sigterm_stops_a_trial(settings: Settings, tuned: Tuned, rising: Curve) -> None:
    def curve(config: TrainConfig) -> list[float]:
        os.kill(os.getpid(), signal.SIGTERM)
        return rising(config)

    with signals_raise(), pytest.raises(SystemExit) as caught:
        tuned(settings(n_trials=2), curve)
    assert stop_code(caught.value) == 143


@pytest.mark.parametrize(("keep", "left"), [("best", 1), ("all", 4), ("none", 0)])
def test_checkpoints_are_kept_by_policy(
    settings: Settings, tuned: Tuned, keep: str, left: int
) -> None:
    config = settings(n_trials=4, keep=keep, pruner="none")
    study = tuned(config)
    kept = sorted(Path(config.tune.folder).rglob("checkpoints"))
    assert len(kept) == left
    if keep == "best":
        assert kept[0].parent == trial_folder(config.tune.folder, study.best_trial.number)


SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict[str, str]]]:
    """Commands and environments of the processes that would have been started."""
    calls: list[tuple[list[str], dict[str, str]]] = []

    process = Mock(spec=subprocess.Popen)

    def popen(command: list[str], env: dict[str, str]) -> Mock:
        calls.append((command, env))
        return process

    monkeypatch.setattr(workers.subprocess, "Popen", popen)
    return calls


def test_the_other_workers_get_the_users_arguments_and_their_number(
    settings: Settings, started: Any
) -> None:
    start_workers(settings(workers=3), ["-m", "tune.workers=3", "data.store=a b"])
    assert [command[1:] for command, _ in started] == [
        ["-m", "leakdet.tune", "tune.workers=3", "data.store=a b", f"tune.worker={number}"]
        for number in (1, 2)
    ]


@pytest.mark.parametrize("accelerator", ["gpu", "auto"])
@pytest.mark.parametrize(
    ("visible", "devices"),
    [("4,7", ["7", "4", "7"]), ("", ["1", "0", "1"]), (None, ["1", "0", "1"])],
)
def test_gpus_are_dealt_out_in_turn(
    settings: Settings,
    started: Any,
    monkeypatch: pytest.MonkeyPatch,
    accelerator: str,
    visible: str | None,
    devices: list[str],
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    config = settings(workers=4)
    config.trainer["accelerator"] = accelerator
    start_workers(config, ["-m"])
    assert [env["CUDA_VISIBLE_DEVICES"] for _, env in started] == devices


@pytest.mark.parametrize(("accelerator", "gpus"), [("auto", 0), ("cpu", 2)])
def test_without_a_gpu_to_use_the_environment_stays(
    settings: Settings,
    started: Any,
    monkeypatch: pytest.MonkeyPatch,
    accelerator: str,
    gpus: int,
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    config = settings(workers=3)
    config.trainer["accelerator"] = accelerator
    start_workers(config, ["-m"])
    assert [env["CUDA_VISIBLE_DEVICES"] for _, env in started] == ["5", "5"]


def test_ended_workers_have_ended_and_killed_ones_are_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "leakdet")
    ended, killed = subprocess.Popen(SLEEP), subprocess.Popen(SLEEP)
    end_workers([ended])
    assert ended.returncode == -15
    killed.kill()
    done = subprocess.Popen([sys.executable, "-c", ""])
    wait_for_workers([done, killed])
    assert re.search(r"worker 2 .*\(signal 9\); .*queued again", caplog.text)
    assert "worker 1" not in caplog.text
