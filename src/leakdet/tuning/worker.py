"""One worker: draws trials from the shared study until it is full and runs each to its end."""

import gc
import math
import shutil
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import optuna
import torch
from optuna.storages._heartbeat import get_heartbeat_thread
from optuna.trial import Trial, TrialState

from leakdet._memory_errors import memory_sentence
from leakdet.config import TuneConfig
from leakdet.errors import LeakdetError
from leakdet.storage.file_lock import locked
from leakdet.training import log_names
from leakdet.tuning.samplers_pruners import make_sampler
from leakdet.tuning.stop_codes import stop_name
from leakdet.tuning.storages import fail_stale, first_line
from leakdet.tuning.trial_table import TrialTable
from leakdet.tuning.trials import (
    OWNER,
    REASON,
    RETRIES,
    fail,
    finished,
    ranked,
    requeue,
    requeue_dead,
    running,
    this_process,
    trial_folder,
)

POLL_S = 0.5


class Worker:
    """Runs trials; `objective(trial)` trains one and returns its value."""

    def __init__(
        self, config: TuneConfig, study: optuna.Study, objective: Callable[[Trial], float]
    ) -> None:
        self.tune, self.study, self.objective = config.tune, study, objective
        self.folder = Path(config.tune.folder)
        self.table = TrialTable(config.tune)

    def work(self) -> None:
        """Run trials until none is left to draw and none of this host is running.

        Raises `KeyboardInterrupt` or `SystemExit` on a signal, after the running trial was queued.
        """
        self.table.head(self.study)
        while True:
            trial = self._draw()
            if trial is not None:
                self._run(trial)
            elif not self._others_here():
                return
            else:
                time.sleep(POLL_S)

    def _draw(self) -> Trial | None:
        """The next trial, or None when the finished and the running ones make up `n_trials`."""
        with locked(self.folder / "draw.lock"):
            for number in requeue_dead(self.study, self.tune.max_retries):
                self.table.row(self.study, number)
            fail_stale(self.study)
            trials = self.study.get_trials(deepcopy=False)
            if len(finished(trials)) + len(running(trials)) >= self.tune.n_trials:
                return None
            waiting = any(trial.state == TrialState.WAITING for trial in trials)
            if self.tune.sampler == "grid" and not waiting:
                return None
            self.study.sampler = make_sampler(self.tune, len(trials))
            with warnings.catch_warnings():  # of databases: we send the heartbeats ourselves
                warnings.filterwarnings(
                    "ignore", "Heartbeat of storage is supposed to be used with"
                )
                trial = self.study.ask()
            trial.set_user_attr(OWNER, this_process())
            return trial

    def _others_here(self) -> bool:
        host = this_process()["host"]
        owners = [
            trial.user_attrs.get(OWNER, {})
            for trial in running(self.study.get_trials(deepcopy=False))
        ]
        return any(owner.get("host") == host for owner in owners)

    def _run(self, trial: Trial) -> None:
        started = time.monotonic()
        folder = trial_folder(self.folder, trial.number)
        try:
            with get_heartbeat_thread(trial._trial_id, self.study._storage):  # databases only
                value = self.objective(trial)
            if not math.isfinite(value):
                raise LeakdetError(f"the objective is {value}, not a finite number")
        except optuna.TrialPruned:
            self._tell(trial, started, None, TrialState.PRUNED)
        except (SystemExit, KeyboardInterrupt) as stop:
            self._requeue(trial, stop_name(stop))
            raise
        except Exception as error:  # fails this trial only: the study goes on
            trial.set_user_attr(REASON, reason_of(error))
            _append_traceback(folder)
            self._tell(trial, started, None, TrialState.FAIL)
        else:
            self._tell(trial, started, value, TrialState.COMPLETE)
        self._tidy(trial.number)

    def _tell(self, trial: Trial, started: float, value: float | None, state: TrialState) -> None:
        trial.set_user_attr("seconds", round(time.monotonic() - started, 3))
        self.study.tell(trial, value, state=state)
        self.table.row(self.study, trial.number)
        if state == TrialState.FAIL:
            release_memory()

    def _requeue(self, trial: Trial, reason: str) -> None:
        frozen = self.study.get_trials(deepcopy=False)[trial.number]
        with locked(self.folder / "draw.lock"):
            # Ctrl-C says nothing against the parameters: it is no retry that counts.
            requeue(self.study, frozen, most=int(frozen.user_attrs.get(RETRIES, 0)) + 1)
            fail(self.study, frozen, reason)
        self.table.row(self.study, trial.number)

    def _tidy(self, number: int) -> None:
        """Remove checkpoints by `tune.keep`; logs, configurations and curves stay."""
        if self.tune.keep == "all":
            return
        best = ranked(self.study.get_trials(deepcopy=False), self.tune.maximises)
        kept = best[0].number if best and self.tune.keep == "best" else None
        for other in {number, *(trial.number for trial in best[1:])} - {kept}:
            for checkpoints in trial_folder(self.folder, other).rglob(log_names.CHECKPOINTS):
                shutil.rmtree(checkpoints, ignore_errors=True)


def reason_of(error: BaseException) -> str:
    """First line of an error, with its type where leakdet did not raise it."""
    sentence = memory_sentence(error)
    if sentence is not None:
        return f"{sentence}; a smaller data.batch_size may fit"
    text = first_line(error)
    return text if isinstance(error, LeakdetError) and text else f"{type(error).__name__}: {text}"


def _append_traceback(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log.txt").open("a", encoding="utf-8") as log:
        traceback.print_exc(file=log)


def release_memory() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
