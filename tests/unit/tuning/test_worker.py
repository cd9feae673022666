"""A worker among failed trials and signals."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import optuna
import pytest
import torch
from optuna.trial import TrialState

from leakdet._signals import signals_raise
from leakdet.config import TrainConfig, TuneConfig
from leakdet.errors import LeakdetError
from leakdet.tuning.stop_codes import stop_code
from leakdet.tuning.study_result import counts, winner
from leakdet.tuning.trials import REASON, finished, trial_folder

Settings = Callable[..., TuneConfig]
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
    with pytest.raises(LeakdetError, match=r"0 of 3 trials completed.*never a finite number"):
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
