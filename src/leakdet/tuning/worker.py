"""One worker: draws trials from the shared study until it is full, trains each, and ends each, whatever happens."""

import gc
import math
import os
import shutil
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import optuna
import torch
from lightning.pytorch.callbacks import Callback
from optuna.trial import Trial, TrialState

from leakdet.config import TrainConfig, TuneConfig
from leakdet.errors import LeakdetError
from leakdet.training import names
from leakdet.tuning.checks import CheckReporter
from leakdet.tuning.space import draw, settings_of, with_settings
from leakdet.tuning.study import fail_silent, locked, make_sampler
from leakdet.tuning.table import TrialTable
from leakdet.tuning.trials import (
    AUROC,
    CHECKS,
    OWNER,
    REASON,
    RETRIES,
    fail,
    finished,
    ranked,
    requeue,
    requeue_dead,
    running,
    same_parameters,
    this_process,
    trial_folder,
)

Train = Callable[[Path, TrainConfig, Sequence[Callback]], object]
POLL_S = 0.5
INTERRUPTED, TERMINATED = 130, 143


class Stopped(Exception):  # noqa: N818  what a person or a scheduler did is no error
    """Ctrl-C or SIGTERM, with the exit code that says which."""

    def __init__(self, code: int) -> None:
        super().__init__("interrupted" if code == INTERRUPTED else "terminated")
        self.code = code


class Worker:
    """`train(folder, config, callbacks)` fits one configuration; `to_yaml` writes one as an experiment."""

    def __init__(
        self,
        config: TuneConfig,
        study: optuna.Study,
        train: Train,
        to_yaml: Callable[[TrainConfig, str], str],
    ) -> None:
        self.config, self.tune, self.study = config, config.tune, study
        self.base = config.training()
        self.train, self.to_yaml = train, to_yaml
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
        owners = [trial.user_attrs.get(OWNER, {}) for trial in running(self.study.get_trials(deepcopy=False))]
        return any(owner.get("host") == host for owner in owners)

    def _run(self, trial: Trial) -> None:
        started = time.monotonic()
        folder = trial_folder(self.folder, trial.number)
        try:
            drawn = draw(trial, self.config.search)
            with heartbeat(trial):
                value = self._repeated(trial, drawn, folder)
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

    def _repeated(self, trial: Trial, drawn: dict[str, Any], folder: Path) -> float:
        twin = same_parameters(self.study, drawn, trial.number) if self.tune.skip_duplicates else None
        if twin is not None and twin.value is not None:
            trial.set_user_attr("duplicate_of", twin.number)
            trial.set_user_attr(AUROC, twin.user_attrs.get(AUROC))
            return twin.value
        config = with_settings(self.base, settings_of(self.config.search, drawn))
        folder.mkdir(parents=True, exist_ok=True)
        note = f"study {self.tune.study}, trial {trial.number}"
        (folder / "config.yaml").write_text(self.to_yaml(config, note), encoding="utf-8")
        reporters: list[CheckReporter] = []
        try:
            for repeat in range(self.tune.repeats):
                by_check = repeat == 0 and self.tune.pruner != "wilcoxon"
                reporters.append(CheckReporter(trial, self.tune.objective, self.tune.maximises, by_check))
                self._train_once(config, folder, repeat, reporters[-1])
                if self.tune.pruner == "wilcoxon":
                    trial.report(reporters[-1].checks[reporters[-1].best_check], repeat)
                    if trial.should_prune():
                        raise optuna.TrialPruned
        finally:
            trial.set_user_attr(CHECKS, sum(len(reporter.checks) for reporter in reporters))
        best = [
            (reporter.checks[reporter.best_check], reporter.aurocs[reporter.best_check])
            for reporter in reporters
        ]
        trial.set_user_attr("repeats", [value for value, _ in best])
        auroc = mean(area for _, area in best)
        trial.set_user_attr(AUROC, auroc if math.isfinite(auroc) else None)
        return mean(value for value, _ in best)

    def _train_once(self, config: TrainConfig, folder: Path, repeat: int, reporter: CheckReporter) -> None:
        inside = folder if self.tune.repeats == 1 else folder / f"repeat-{repeat}"
        inside.mkdir(parents=True, exist_ok=True)
        with (
            (inside / "log.txt").open("a", encoding="utf-8") as log,
            redirect_stdout(log),
            redirect_stderr(log),
        ):
            self.train(inside, replace(config, seed=config.seed + repeat), [reporter])

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
            for checkpoints in trial_folder(self.folder, other).rglob(names.CHECKPOINTS):
                shutil.rmtree(checkpoints, ignore_errors=True)


def stop_code(stop: BaseException) -> int:
    """Lightning turns Ctrl-C into exit(1) and SIGTERM into exit(0)."""
    if isinstance(stop, Stopped):
        return stop.code
    by_hand = isinstance(stop, KeyboardInterrupt) or getattr(stop, "code", None) in (1, INTERRUPTED)
    return INTERRUPTED if by_hand else TERMINATED


def stop_name(stop: BaseException) -> str:
    return "interrupted (Ctrl-C)" if stop_code(stop) == INTERRUPTED else "terminated (SIGTERM)"


def reason_of(error: BaseException) -> str:
    """The kind of fault, and its first line."""
    text = (str(error).strip().splitlines() or [""])[0]
    out_of_memory = isinstance(error, torch.OutOfMemoryError | MemoryError) or "out of memory" in text.lower()
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
def sigterm_raises() -> Iterator[None]:
    """SIGTERM ends the work like Ctrl-C does, so that a trial that runs is ended and queued again."""

    def stop(*_: object) -> None:
        raise SystemExit(TERMINATED)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
