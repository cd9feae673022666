"""Workers of a study: they draw trials until it is full, and run each to its end."""

import gc
import math
import os
import shutil
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import mean

import optuna
import torch
from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
from optuna.trial import FrozenTrial, Trial, TrialState

from leakdet.config import TrainerFlags, TuneConfig, TuneSettings
from leakdet.core.errors import LeakdetError, memory_sentence
from leakdet.core.files import locked
from leakdet.core.messages import LOG
from leakdet.core.process import INTERRUPTED, PARENT, signal_name
from leakdet.training import log_names
from leakdet.tuning.study import (
    CHECKS,
    GRACE_S,
    LOCK,
    OWNER,
    REASON,
    finished,
    first_line,
    ranked,
    reason_of_failure,
    requeue,
    requeue_killed,
    running,
    trial_folder,
)

TERMINATED = 143


def stop_code(stop: BaseException) -> int:
    """130, 143 or that of another signal. Lightning makes Ctrl-C exit(1) and SIGTERM exit(0)."""
    code = getattr(stop, "code", None)
    if isinstance(stop, KeyboardInterrupt) or code == 1:
        return INTERRUPTED
    return code if isinstance(code, int) and code > 128 else TERMINATED


def stop_name(stop: BaseException) -> str:
    code = stop_code(stop)
    return "interrupted (Ctrl-C)" if code == INTERRUPTED else f"stopped by {signal_name(code)}"


COLUMNS = ("trial", "state", "value", "best", "checks", "saved", "trials/h", "left")
WIDTHS = (7, 9, 9, 16, 7, 7, 9, 9)


def checks_saved(trials: Sequence[FrozenTrial]) -> int:
    """Validation checks that pruning saved, against the mean length of the complete trials."""
    whole = [int(t.user_attrs.get(CHECKS, 0)) for t in trials if t.state == TrialState.COMPLETE]
    if not whole:
        return 0
    pruned = [int(t.user_attrs.get(CHECKS, 0)) for t in trials if t.state == TrialState.PRUNED]
    return round(sum(max(0.0, mean(whole) - length) for length in pruned))


class TrialTable:
    """Prints the lines of one worker; its rate counts the trials of all since the worker began."""

    def __init__(self, tune: TuneSettings) -> None:
        self.tune = tune
        self._started = time.monotonic()
        self._finished_before = 0

    def head(self, study: optuna.Study) -> None:
        self._finished_before = len(finished(study.get_trials(deepcopy=False)))
        if self.tune.worker == 0:
            _print(COLUMNS)

    def row(self, study: optuna.Study, number: int) -> None:
        trials = study.get_trials(deepcopy=False)
        trial, done = trials[number], len(finished(trials))
        best = ranked(trials, self.tune.maximises)
        new, hours = done - self._finished_before, (time.monotonic() - self._started) / 3600
        left_s = (self.tune.n_trials - done) * hours * 3600 / new if new > 0 else None
        cells = (
            f"{number}",
            trial.state.name.lower(),
            "-" if trial.value is None else f"{trial.value:.4f}",
            f"{best[0].value:.4f} (trial {best[0].number})" if best else "-",
            str(trial.user_attrs.get(CHECKS, 0)),
            str(checks_saved(trials)),
            f"{new / max(1e-9, hours):.0f}",
            "-" if left_s is None else f"{left_s:.0f} s",
        )
        _print(cells)
        if trial.state == TrialState.FAIL:
            LOG.info(f"        failed: {reason_of_failure(trial)}")


def _print(cells: Sequence[str]) -> None:
    LOG.info(" ".join(cell.rjust(width) for cell, width in zip(cells, WIDTHS, strict=True)))


POLL_S = 0.5


class Worker:
    """Runs trials; `objective(trial)` trains one and returns its value."""

    def __init__(
        self, config: TuneConfig, study: optuna.Study, objective: Callable[[Trial], float]
    ) -> None:
        self.tune, self.study, self.objective = config.tune, study, objective
        self.folder = Path(config.tune.folder)
        self.table = TrialTable(config.tune)
        self.host = socket.gethostname()
        self.number = -1  # of the trial that runs
        self.drawing = ExitStack()  # holds the lock under which a trial is drawn

    def work(self) -> None:
        """Run trials until none is left to draw and none of this host is running.

        Raises `KeyboardInterrupt` or `SystemExit` on a signal, after the running trial was queued
        again, and `StorageInternalError` where the database does not answer.
        """
        self.table.head(self.study)
        alone = self.tune.workers == 1
        while True:
            requeue_killed(self.study, self.tune.max_retries)
            trials = self.study.get_trials(deepcopy=False)
            if self._is_left(trials):
                self._run_next()
            elif self._runs_here(trials):
                if alone:
                    LOG.info(
                        f"waiting  for a trial of another process; killed, it is queued again "
                        f"after {GRACE_S} s"
                    )
                alone = False
                time.sleep(POLL_S)
            else:
                return

    def _is_left(self, trials: Sequence[FrozenTrial]) -> bool:
        """True if the finished and the running trials do not make up `n_trials` yet."""
        if len(finished(trials)) + len(running(trials)) >= self.tune.n_trials:
            return False
        queued = any(trial.state == TrialState.WAITING for trial in trials)
        return queued or self.tune.sampler != "grid"

    def _runs_here(self, trials: Sequence[FrozenTrial]) -> bool:
        """True if a trial runs in a process of this host, or in one that has not said where."""
        owners = [trial.user_attrs.get(OWNER, {}) for trial in running(trials)]
        return any(owner.get("host", self.host) == self.host for owner in owners)

    def _run_next(self) -> None:
        self.number = -1
        try:
            with self.drawing:
                # or two workers that count at the same time draw one trial too many
                self.drawing.enter_context(locked(self.folder / LOCK))
                if not self._is_left(self.study.get_trials(deepcopy=False)):
                    return
                self.study.optimize(
                    self._train, n_trials=1, catch=(Exception,), callbacks=[self._after_trial]
                )
        except (KeyboardInterrupt, SystemExit):
            if self.number >= 0:
                # Optuna does not end the trial where SystemExit ends the process
                self.study.tell(self.number, state=TrialState.FAIL, skip_if_finished=True)
                self.table.row(self.study, self.number)
            raise
        except (ValueError, UpdateFinishedTrialError):  # another worker has ended the trial
            LOG.info(
                f"note     trial {self.number} was queued again, since its process gave no sign "
                f"of life for {GRACE_S} s; its value is lost"
            )
        except (AssertionError, UnboundLocalError) as error:  # of Optuna, as it ends a trial
            cause = error.__context__
            if isinstance(cause, StorageInternalError):
                raise cause from cause.__cause__
            raise

    def _train(self, trial: Trial) -> float:
        """The trial's value; the reason is recorded where it has none."""
        self.number, started = trial.number, time.monotonic()
        self.drawing.close()
        try:
            value = self.objective(trial)
            if not math.isfinite(value):
                raise LeakdetError(f"the objective is {value}, not a finite number")
            return value
        except optuna.TrialPruned:
            raise
        except (KeyboardInterrupt, SystemExit) as stop:
            trial.set_user_attr(REASON, stop_name(stop))
            # Ctrl-C says nothing against the parameters: it is no retry that counts
            requeue(self.study, self.study.get_trials(deepcopy=False)[trial.number], most=None)
            raise
        except Exception as error:  # fails this trial only: the study goes on
            trial.set_user_attr(REASON, reason_of(error))
            _append_traceback(trial_folder(self.folder, trial.number))
            raise
        finally:
            trial.set_user_attr("seconds", round(time.monotonic() - started, 3))

    def _after_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        self.table.row(study, trial.number)
        if trial.state == TrialState.FAIL:
            release_memory()
        self._tidy(trial.number)

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


Processes = Sequence["subprocess.Popen[bytes]"]


def start_workers(config: TuneConfig, arguments: Sequence[str]) -> Processes:
    """Start workers 1, 2, ... with the arguments that the user gave."""
    plain = [argument for argument in arguments if argument not in ("-m", "--multirun")]
    command = [sys.executable, "-m", "leakdet.tune", *plain]
    return [
        subprocess.Popen([*command, f"tune.worker={number}"], env=_environment(config, number))
        for number in range(1, config.tune.workers)
    ]


def _environment(config: TuneConfig, number: int) -> dict[str, str]:
    """The environment of worker `number`: its parent, and one GPU, dealt out in turn."""
    environment = os.environ | {PARENT: str(os.getpid())}
    if TrainerFlags.of(config.trainer).accelerator not in ("gpu", "cuda", "auto"):
        return environment
    import torch

    count = torch.cuda.device_count()
    if not count:  # auto takes the CPU then
        return environment
    devices = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[:count]
    if devices == [""]:
        devices = [str(index) for index in range(count)]
    return environment | {"CUDA_VISIBLE_DEVICES": devices[number % len(devices)]}


def end_workers(workers: Processes) -> None:
    """Send SIGTERM, upon which each queues its trial again, and wait."""
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.wait()


def wait_for_workers(workers: Processes) -> None:
    for number, worker in enumerate(workers, 1):
        if worker.wait() < 0:
            LOG.info(
                f"note     worker {number} was killed (signal {-worker.returncode}); "
                "its trial was queued again"
            )
