"""States of trials: which count, which belong to dead processes, which had the same parameters."""

import os
import socket
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import optuna
import psutil
from optuna.trial import FrozenTrial, TrialState

OWNER = "owner"  # user attribute: the host and process that runs the trial
REASON = "reason"  # why it failed
RETRY_OF = "retry_of"  # the number of the trial whose parameters it repeats
RETRIES = "retries"
CLOCK_SLACK_S = 2.0  # accuracy of a process's start time
OWNER_WITHIN_S = 2.0  # of the draw the owner is recorded; clocks of hosts may differ
AUROC, CHECKS = "auroc", "checks"
CONFUSION = "confusion"  # user attribute: counts of recordings at the check that is the result
LEAK_SHARE = "leak_share"  # user attribute: share of leaks in the loss
COUNTS = ("tn", "fp", "fn", "tp")


def this_process() -> dict[str, Any]:
    """Host, process and its start, because process numbers are reused."""
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "started_s": psutil.Process().create_time(),
    }


def is_dead(owner: Mapping[str, Any]) -> bool:
    """True if a process of this host has ended; False for processes of other hosts."""
    if owner.get("host") != socket.gethostname():
        return False
    try:
        process = psutil.Process(int(owner["pid"]))
        other = abs(process.create_time() - float(owner["started_s"])) > CLOCK_SLACK_S
        return bool(other or process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def finished(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Trials that count towards `n_trials`: ended and not retried."""
    retried = {trial.user_attrs.get(RETRY_OF) for trial in trials}
    return [trial for trial in trials if trial.state.is_finished() and trial.number not in retried]


def running(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    return [trial for trial in trials if trial.state == TrialState.RUNNING]


def ranked(trials: Sequence[FrozenTrial], maximises: bool) -> list[FrozenTrial]:
    """Complete trials, best first: by value, then by AUROC, then the earlier one."""
    sign = 1.0 if maximises else -1.0
    done = [
        trial for trial in trials if trial.state == TrialState.COMPLETE and trial.value is not None
    ]
    return sorted(
        done,
        key=lambda t: (-sign * (t.value or 0.0), -float(t.user_attrs.get(AUROC) or 0.0), t.number),
    )


def requeue(study: optuna.Study, trial: FrozenTrial, most: int) -> None:
    """Queue a trial's parameters again, unless they were retried `most` times."""
    retries = int(trial.user_attrs.get(RETRIES, 0))
    if retries < most:
        study.enqueue_trial(trial.params, user_attrs={RETRY_OF: trial.number, RETRIES: retries + 1})


def fail(study: optuna.Study, trial: FrozenTrial, reason: str) -> None:
    """End a running trial as FAIL, with its reason and without a value."""
    storage, trial_id = study._storage, trial._trial_id
    try:
        storage.set_trial_user_attr(trial_id, REASON, reason)
        storage.set_trial_state_values(trial_id, TrialState.FAIL)
    except optuna.exceptions.UpdateFinishedTrialError:
        return  # another worker was faster


def requeue_dead(study: optuna.Study, most: int) -> list[int]:
    """Requeue trials whose process on this host is dead or died before recording its owner.

    Returns their numbers.
    """
    numbers = []
    for trial in running(study.get_trials(deepcopy=False)):
        owner = trial.user_attrs.get(OWNER)
        if owner is None and _age_s(trial) > OWNER_WITHIN_S:
            reason = "its process was killed before it recorded its owner"
        elif owner is not None and is_dead(owner):
            reason = f"its process {owner['pid']} was killed"
        else:
            continue
        requeue(study, trial, most)
        fail(study, trial, reason)
        numbers.append(trial.number)
    return numbers


def _age_s(trial: FrozenTrial) -> float:
    return (datetime.now() - trial.datetime_start).total_seconds() if trial.datetime_start else 0.0  # noqa: DTZ005  as Optuna


def same_parameters(
    study: optuna.Study, drawn: Mapping[str, Any], number: int
) -> FrozenTrial | None:
    """An earlier complete trial with exactly these parameters."""
    for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
        if trial.number != number and trial.params == dict(drawn):
            return trial
    return None


def trial_folder(folder: str | Path, number: int) -> Path:
    return Path(folder) / "trials" / f"{number:04d}"
