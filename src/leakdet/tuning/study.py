"""A study: its storage, sampler, pruner and trials, and whether it is still the same search."""

import json
import os
import random
import socket
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlparse

import optuna
import psutil
from optuna.exceptions import StorageInternalError
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState

from leakdet.config import TrainerFlags, TuneConfig, TuneSettings
from leakdet.config.fields import differences
from leakdet.core.errors import SettingsError
from leakdet.core.files import locked
from leakdet.tuning.plots import INSTALL, has_plotly
from leakdet.tuning.space import grid, to_json

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


JOURNAL = "study.journal"
HEARTBEAT_S = 30
DATABASE_WAIT_S = 60
SERVER_WAIT_S = 20


def open_storage(tune: TuneSettings) -> BaseStorage:
    """Open the study's storage.

    Raises `SettingsError` where its address, its package or its server is missing.
    """
    where = tune.storage or str(Path(tune.folder) / JOURNAL)
    scheme = urlparse(where).scheme if "://" in where else ""
    if scheme == "grpc":
        return _proxy(where)
    return _database(where, tune.max_retries) if scheme else _journal(Path(where))


def _proxy(where: str) -> BaseStorage:
    """Connect to `optuna.storages.run_grpc_proxy_server` on another host."""
    address = urlparse(where)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            proxy = optuna.storages.GrpcStorageProxy(
                host=address.hostname or "localhost", port=address.port or 13000
            )
        proxy.wait_server_ready(timeout=SERVER_WAIT_S)
    except ImportError as error:
        raise SettingsError(
            f"tune.storage={where} needs packages that are not installed: "
            "pip install grpcio protobuf"
        ) from error
    except ConnectionError as error:
        raise SettingsError(
            f"tune.storage={where}: nothing answered for {SERVER_WAIT_S} s. "
            "Start the server first (docs/tuning.md)."
        ) from error
    return proxy


def _journal(path: Path) -> BaseStorage:
    from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock

    path.parent.mkdir(parents=True, exist_ok=True)
    _drop_torn_line(path, JournalFileSymlinkLock(str(path)))
    try:
        return optuna.storages.JournalStorage(JournalFileBackend(str(path)))
    except (ValueError, KeyError) as error:
        raise SettingsError(f"tune.storage: {path} is no journal of Optuna ({error}).") from error


def _drop_torn_line(path: Path, lock: Any) -> None:
    """Remove half a line at the end, left by a crash: the next entry would be appended to it."""
    if not path.exists() or path.stat().st_size == 0:
        return
    lock.acquire()
    try:
        content = path.read_bytes()
        if not content.endswith(b"\n"):
            with path.open("r+b") as file:
                file.truncate(content.rfind(b"\n") + 1)
    finally:
        lock.release()


def _database(url: str, retries: int) -> BaseStorage:
    from sqlalchemy.exc import SQLAlchemyError

    def again(study: optuna.Study, trial: FrozenTrial) -> None:
        requeue(study, trial, retries)

    shown = shown_address(url)
    arguments = (
        {"connect_args": {"timeout": DATABASE_WAIT_S}}
        if url.startswith("sqlite")
        else {"pool_pre_ping": True}
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # heartbeats
            return optuna.storages.RDBStorage(
                url,
                engine_kwargs=arguments,
                heartbeat_interval=HEARTBEAT_S,
                heartbeat_stale_trial_callback=again,
            )
    except ImportError as error:
        raise SettingsError(
            f"tune.storage={shown} needs a database driver that is not installed: "
            "pip install 'leakdet[postgres]'"
        ) from error
    except RuntimeError as error:  # made by another version of Optuna
        raise SettingsError(f"tune.storage={shown} cannot be used: {first_line(error)}") from error
    except (SQLAlchemyError, ValueError) as error:
        cause = first_line(error)
        raise SettingsError(f"tune.storage={shown} cannot be opened: {cause}") from error


def shown_address(url: str) -> str:
    """The address of a storage without its password."""
    address = urlparse(url)
    return f"{address.scheme}://{address.hostname or ''}{address.path}" if address.scheme else url


def first_line(error: BaseException) -> str:
    """First line of an error's text that is not blank; empty where there is none."""
    return (str(error).strip().splitlines() or [""])[0]


def fail_stale(study: optuna.Study) -> None:
    """End trials whose heartbeat stopped as FAIL and queue them again; databases only."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        optuna.storages.fail_stale_trials(study)


def make_sampler(tune: TuneSettings, number: int) -> BaseSampler:
    """The sampler of trial `number`.

    Its draws depend on the seed, the number and the history only: a study that was stopped goes on
    as if it had not been, and no two workers draw the same.
    """
    seed = random.Random(f"{tune.seed}/{number}").randrange(2**31)
    startup = tune.n_startup_trials
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        match tune.sampler:
            case "tpe":
                return optuna.samplers.TPESampler(
                    seed=seed,
                    n_startup_trials=startup,
                    multivariate=True,
                    group=True,
                    constant_liar=tune.workers > 1,
                )
            case "gp":
                return optuna.samplers.GPSampler(
                    seed=seed, n_startup_trials=max(1, startup), warn_independent_sampling=False
                )
            case "cmaes":
                return optuna.samplers.CmaEsSampler(
                    seed=seed, n_startup_trials=startup, warn_independent_sampling=False
                )
            case _:  # the grid's combinations are enqueued
                return optuna.samplers.RandomSampler(seed=seed)


def make_pruner(config: TuneConfig) -> BasePruner:
    """The pruner by its settings, made anew each time: a study does not store it."""
    tune = config.tune
    common = {
        "n_startup_trials": tune.n_min_trials,
        "n_warmup_steps": tune.n_warmup,
        "n_min_trials": tune.n_min_trials,
    }
    least = max(1, tune.n_warmup)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        match tune.pruner:
            case "median":
                return optuna.pruners.MedianPruner(**common)
            case "percentile":
                return optuna.pruners.PercentilePruner(tune.percentile, **common)
            case "asha":
                return Patient(
                    optuna.pruners.SuccessiveHalvingPruner(
                        least, reduction_factor=tune.reduction_factor
                    ),
                    tune,
                )
            case "hyperband":
                most = max(least + 1, TrainerFlags.of(config.trainer).max_epochs)
                return Patient(
                    optuna.pruners.HyperbandPruner(least, most, tune.reduction_factor), tune
                )
            case "wilcoxon":
                return optuna.pruners.WilcoxonPruner(n_startup_steps=1)
            case _:
                return optuna.pruners.NopPruner()


class Patient(BasePruner):
    """A pruner that waits for `n_warmup` checks and for `n_min_trials` others at that check."""

    def __init__(self, pruner: BasePruner, tune: TuneSettings) -> None:
        self.pruner, self.n_warmup, self.n_min_trials = pruner, tune.n_warmup, tune.n_min_trials

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        step = trial.last_step
        if step is None or step < self.n_warmup:
            return False
        others = sum(
            step in other.intermediate_values and other.number != trial.number
            for other in study.get_trials(deepcopy=False)
        )
        # The pruner is asked in any case: successive halving records the rungs of each trial.
        return self.pruner.prune(study, trial) and others >= self.n_min_trials


STUDY_FINGERPRINT = "leakdet"  # study attribute: settings that a continued study must share


def introduction(config: TuneConfig, study: optuna.Study) -> str:
    """The first lines of a study: its progress, search space, method and folder."""
    tune, done = config.tune, len(finished(study.get_trials(deepcopy=False)))
    lines = [
        f"study    {tune.study}: {done} of {tune.n_trials} trials are finished",
        f"search   {', '.join(config.search)}",
        f"method   {tune.sampler} sampler, {tune.pruner} pruner, best {tune.objective} on val, "
        f"{tune.workers} worker{'s' if tune.workers > 1 else ''}",
        f"folder   {tune.folder}",
    ]
    if not has_plotly():
        lines.append(f"note     plotly is not installed: tune.html will have no plots ({INSTALL})")
    return "\n".join(lines)


def open_study(config: TuneConfig) -> optuna.Study:
    """Create the study or open it.

    Raises `SettingsError` where space, direction or training settings differ from the stored ones,
    or the storage cannot be written.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    tune = config.tune
    try:
        with locked(Path(tune.folder) / "draw.lock"):
            return _study(config, _direction(config))
    except StorageInternalError as error:
        where = shown_address(tune.storage or tune.folder)
        raise SettingsError(
            f"tune.storage={where} cannot be written: {first_line(error.__cause__ or error)}. "
            "Name one that you may write, or none: the study is then kept in tune.folder."
        ) from error


def _study(config: TuneConfig, direction: Literal["maximize", "minimize"]) -> optuna.Study:
    tune = config.tune
    study = optuna.create_study(
        study_name=tune.study,
        storage=open_storage(tune),
        direction=direction,
        sampler=make_sampler(tune, 0),
        pruner=make_pruner(config),
        load_if_exists=True,
    )
    fresh = STUDY_FINGERPRINT not in study.user_attrs and not study.get_trials(deepcopy=False)
    if fresh and study.direction.name.lower() == direction:
        study.set_user_attr(STUDY_FINGERPRINT, fingerprint(config))
        if tune.sampler == "grid":
            _enqueue_grid(study, config)
    else:
        check_unchanged(study, config)
    return study


def _direction(config: TuneConfig) -> Literal["maximize", "minimize"]:
    return "maximize" if config.tune.maximises else "minimize"


def fingerprint(config: TuneConfig) -> dict[str, Any]:
    """Settings without which values of trials could not be compared, as plain JSON values."""
    training = asdict(config.training())
    for name in ("logger", "log", "threads"):
        del training[name]
    settings = {
        "direction": _direction(config),
        "objective": config.tune.objective,
        "repeats": config.tune.repeats,
        "folds": config.tune.folds,
        "space": to_json(config.search),
        "training": training,
    }
    plain: dict[str, Any] = json.loads(json.dumps(settings))
    return plain


def check_unchanged(study: optuna.Study, config: TuneConfig) -> None:
    """Raise `SettingsError` where the study was started with another search."""
    stored = study.user_attrs.get(STUDY_FINGERPRINT, {"direction": study.direction.name.lower()})
    changed = [
        f"{name}: {json.dumps(old)} / {json.dumps(new)}"
        for name, old, new in differences(stored, fingerprint(config))
    ]
    if changed:
        raise SettingsError(
            f"The study {config.tune.study!r} was started with another search, and its trials "
            "cannot be compared with new ones (stored / now): "
            f"{'; '.join(changed[:6])}{' ...' if len(changed) > 6 else ''}. "
            "Name a new study, tune.study=NAME, or go back to the stored settings."
        )


def _enqueue_grid(study: optuna.Study, config: TuneConfig) -> None:
    combinations = grid(config.search)
    # Shuffled, so that the first trials cover the grid and not a corner of it.
    random.Random(config.tune.seed).shuffle(combinations)
    for drawn in combinations[: config.tune.n_trials]:
        study.enqueue_trial(drawn)
