"""One worker: draws trials from the shared study until it is full, trains each, and ends each, whatever happens."""

import gc
import math
import os
import shutil
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
import torch
from optuna.trial import Trial, TrialState

from leakdet.config import TuneConfig
from leakdet.errors import LeakdetError
from leakdet.training import log_names
from leakdet.tuning.samplers_pruners import make_sampler
from leakdet.tuning.signals import Stopped, stop_code, stop_name
from leakdet.tuning.storages import fail_silent, locked
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
    """`objective(trial)` trains and gives the trial's value."""

    def __init__(
        self, config: TuneConfig, study: optuna.Study, objective: Callable[[Trial], float]
    ) -> None:
        self.tune, self.study, self.objective = config.tune, study, objective
        self.folder = Path(config.tune.folder)
        self.table = TrialTable(config.tune)

    def work(self) -> None:
        """Until no trial is to be drawn and none of this host is running. Raises `Stopped`."""
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
            fail_silent(self.study)
            trials = self.study.get_trials(deepcopy=False)
            if len(finished(trials)) + len(running(trials)) >= self.tune.n_trials:
                return None
            waiting = any(trial.state == TrialState.WAITING for trial in trials)
            if self.tune.sampler == "grid" and not waiting:
                return None
            self.study.sampler = make_sampler(self.tune, len(trials))
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
            with heartbeat(trial):
                value = self.objective(trial)
            if not math.isfinite(value):
                raise LeakdetError(f"the objective is {value}, which is no result")
        except optuna.TrialPruned:
            self._tell(trial, started, None, TrialState.PRUNED)
        except (SystemExit, KeyboardInterrupt) as stop:
            self._requeue(trial, stop_name(stop))
            raise Stopped(stop_code(stop)) from stop
        except Exception as error:  # a trial's fault is the trial's: the study goes on
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
            retries = int(frozen.user_attrs.get(RETRIES, 0))
            # A person's Ctrl-C says nothing against the parameters: it costs no retry.
            requeue(self.study, frozen, reason, tell=False, most=retries + 1)
            fail(self.study, trial.number, reason)
        self.table.row(self.study, trial.number)

    def _tidy(self, number: int) -> None:
        """Checkpoints by `tune.keep`; logs, configurations and curves stay."""
        if self.tune.keep == "all":
            return
        best = ranked(self.study.get_trials(deepcopy=False), self.tune.maximises)
        kept = best[0].number if best and self.tune.keep == "best" else None
        for other in {number, *(trial.number for trial in best[1:])} - {kept}:
            for checkpoints in trial_folder(self.folder, other).rglob(log_names.CHECKPOINTS):
                shutil.rmtree(checkpoints, ignore_errors=True)


def reason_of(error: BaseException) -> str:
    """The kind of fault, and its first line."""
    text = (str(error).strip().splitlines() or [""])[0]
    out_of_memory = (
        isinstance(error, torch.OutOfMemoryError | MemoryError) or "out of memory" in text.lower()
    )
    if out_of_memory:
        return f"out of memory: {text or type(error).__name__}; a smaller data.batch_size may fit"
    return text if isinstance(error, LeakdetError) and text else f"{type(error).__name__}: {text}"


def _append_traceback(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log.txt").open("a", encoding="utf-8") as log:
        traceback.print_exc(file=log)


def release_memory() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


@contextmanager
def heartbeat(trial: Trial) -> Iterator[None]:
    """Databases only: tell the storage now and then that this trial's process lives, as `study.optimize` does."""
    storage: Any = trial.storage
    interval = getattr(storage, "get_heartbeat_interval", lambda: None)()
    if interval is None:
        yield
        return
    ended = threading.Event()

    def beat() -> None:
        while not ended.is_set():
            storage.record_heartbeat(trial._trial_id)
            ended.wait(interval)

    thread = threading.Thread(target=beat, daemon=True, name=f"heartbeat-{os.getpid()}")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
