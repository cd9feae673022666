"""A study: its storage, sampler, pruner and trials, and whether it is still the same search.

A trial that runs sends Optuna's heartbeat to the storage. Once a killed process has sent none for
`GRACE_S`, any worker ends its trial as FAIL and queues it again.
"""

import json
import os
import random
import socket
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import asdict
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlparse

import optuna
import psutil
from optuna.distributions import BaseDistribution
from optuna.exceptions import ExperimentalWarning, StorageInternalError, UpdateFinishedTrialError
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.trial import FrozenTrial, TrialState

from leakdet.config import TrainerFlags, TuneConfig, TuneSettings
from leakdet.config.fields import differences
from leakdet.core.errors import SettingsError, install_command
from leakdet.core.files import locked
from leakdet.core.messages import LOG
from leakdet.tuning.space import grid, to_json

OWNER = "owner"  # user attribute: host and process that run the trial
REASON = "reason"  # user attribute: why it failed
KILLED = "its process was killed"  # the reason where none was recorded
AUROC, CHECKS = "auroc", "checks"
CONFUSION = "confusion"  # user attribute: counts of recordings at the check that is the result
LEAK_SHARE = "leak_share"  # user attribute: share of leaks in the loss
COUNTS = ("tn", "fp", "fn", "tp")


@contextmanager
def experimental() -> Iterator[None]:
    """Use what Optuna calls experimental without a warning at each use."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        yield


def finished(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Trials that count towards `n_trials`: ended and not repeated."""
    with experimental():
        repeated = {
            number
            for trial in trials
            for number in RetryHeartbeatStaleTrialCallback.retry_history(trial)
        }
    return [trial for trial in trials if trial.state.is_finished() and trial.number not in repeated]


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


def requeue(study: optuna.Study, trial: FrozenTrial, most: int | None) -> None:
    """Queue a trial's parameters again, unless they were repeated `most` times."""
    trial = deepcopy(trial)
    trial.user_attrs = {}  # the owner and the reason are of this trial alone
    with experimental():
        RetryHeartbeatStaleTrialCallback(max_retry=most)(study, trial)


def requeue_killed(study: optuna.Study, most: int) -> None:
    """End the trials of killed processes and queue them again, at most `most` times each."""
    with experimental():
        optuna.storages.fail_stale_trials(study)  # which calls what `open_storage` gave it
    for trial in running(study.get_trials(deepcopy=False)):
        # killed after it was drawn and before the first heartbeat, which Optuna does not look for
        if OWNER not in trial.user_attrs and _age_s(trial) > GRACE_S:
            with suppress(ValueError, UpdateFinishedTrialError):  # another worker was faster
                study.tell(trial.number, state=TrialState.FAIL)
                requeue_of_killed(study, trial, most)


def requeue_of_killed(study: optuna.Study, trial: FrozenTrial, most: int) -> None:
    requeue(study, trial, most)
    LOG.info(f"note     trial {trial.number} has ended: {KILLED}")


def _age_s(trial: FrozenTrial) -> float:
    return (datetime.now() - trial.datetime_start).total_seconds() if trial.datetime_start else 0.0  # noqa: DTZ005  as Optuna


def reason_of_failure(trial: FrozenTrial) -> str:
    return str(trial.user_attrs.get(REASON, KILLED))


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


DATABASE, LOCK = "study.db", "study.lock"
JOURNAL = "study.journal"  # of studies of before
HEARTBEAT_S, GRACE_S = 10, 60
DATABASE_WAIT_S = 60
# Locks may not hold there among processes, and SQLite relies on them.
NETWORK_FILE_SYSTEMS = (
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "glusterfs", "lustre", "gpfs", "beegfs",
    "fuse.sshfs", "fuse.rclone", "fuse.s3fs", "fuse.gcsfuse", "fuse.glusterfs",
)  # fmt: skip


class Database(RDBStorage):
    """Optuna's storage; its heartbeat goes on after a database failed for a moment.

    The heartbeat says where the trial runs, so that a trial which does not say so has none.
    """

    def record_heartbeat(self, trial_id: int) -> None:
        with suppress(StorageInternalError, UpdateFinishedTrialError):
            super().record_heartbeat(trial_id)
            place = {"host": socket.gethostname(), "pid": os.getpid()}
            self.set_trial_user_attr(trial_id, OWNER, place)


def open_storage(tune: TuneSettings) -> Database:
    """Open the study's database, by default a file of SQLite in its folder."""
    from sqlalchemy.exc import SQLAlchemyError
    from sqlalchemy.pool import NullPool

    url = storage_address(tune)
    shown = shown_address(url)
    # without a pool no connection is left open in a thread or a forked process
    arguments = (
        {"connect_args": {"timeout": DATABASE_WAIT_S}, "poolclass": NullPool}
        if url.startswith("sqlite")
        else {"pool_pre_ping": True}
    )
    try:
        with experimental():
            storage = Database(
                url,
                engine_kwargs=arguments,
                heartbeat_interval=HEARTBEAT_S,
                grace_period=GRACE_S,
                heartbeat_stale_trial_callback=partial(requeue_of_killed, most=tune.max_retries),
            )
    except ImportError as error:
        raise SettingsError(
            f"tune.storage={shown} needs a database driver that is not installed: "
            f"{install_command('postgres')}"
        ) from error
    except RuntimeError as error:  # made by another version of Optuna
        raise SettingsError(f"tune.storage={shown} cannot be used: {first_line(error)}") from error
    except (SQLAlchemyError, ValueError) as error:
        cause = first_line(error)
        raise SettingsError(f"tune.storage={shown} cannot be opened: {cause}") from error
    if url.startswith("sqlite"):
        _lock_transactions(storage.engine)
    return storage


def _lock_transactions(engine: Any) -> None:
    """Make each transaction of SQLite exclusive, so that no two workers take one queued trial.

    Python's driver begins one only at the first change, after the state of the trial was read.
    """
    from sqlalchemy import event

    @event.listens_for(engine, "connect")
    def on_connect(connection: Any, _: Any) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def on_begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def storage_address(tune: TuneSettings) -> str:
    """The URL of the study's database. Raises `SettingsError` where trials could get lost in it."""
    from sqlalchemy.engine import URL

    if tune.storage and tune.storage.startswith("grpc://"):
        raise SettingsError(
            f"tune.storage={tune.storage}: Optuna's proxy knows no heartbeats, so the trial of a "
            "killed worker would never be repeated. Name a database: postgresql://USER@HOST/NAME"
        )
    path = Path((tune.storage or "").removeprefix("sqlite:///"))
    if not tune.storage:
        path = Path(tune.folder) / DATABASE
        _refuse_journal(tune, path)
    elif not tune.storage.startswith("sqlite:///"):
        return tune.storage
    if kind := network_file_system(path):
        raise SettingsError(
            f"tune.storage: {path} is on a network file system ({kind}), on which SQLite loses "
            "trials of several workers. Name a database on a disk of this machine, "
            "tune.storage=sqlite:////PATH/study.db, or a server, "
            "tune.storage=postgresql://USER@HOST/NAME"
        )
    return tune.storage or URL.create("sqlite", database=str(path)).render_as_string()


def network_file_system(path: Path) -> str | None:
    """The kind of network file system that holds `path`, as nfs4; None where none is known to."""
    place = path.absolute().resolve()
    mounts = [
        mount
        for mount in psutil.disk_partitions(all=True)
        if place.is_relative_to(mount.mountpoint)
    ]
    # the last mount of a place hides those before it
    kind = sorted(mounts, key=lambda mount: len(mount.mountpoint))[-1].fstype if mounts else ""
    return kind if kind in NETWORK_FILE_SYSTEMS else None


def _refuse_journal(tune: TuneSettings, database: Path) -> None:
    journal = database.with_name(JOURNAL)
    if not journal.exists() or database.exists():
        return
    raise SettingsError(
        f"{journal}: studies are kept in a database now, {DATABASE}. Name a new one "
        "(tune.study=NAME), or copy the trials of this one: "
        'python -c "import optuna as o; from optuna.storages.journal import JournalFileBackend; '
        f"o.copy_study(from_study_name='{tune.study}', to_storage='sqlite:///{database}', "
        f"from_storage=o.storages.JournalStorage(JournalFileBackend('{journal}')))\""
    )


def shown_address(url: str) -> str:
    """The address of a storage without its password."""
    address = urlparse(url)
    return f"{address.scheme}://{address.hostname or ''}{address.path}" if address.scheme else url


def first_line(error: BaseException) -> str:
    """First line of an error's text that is not blank; empty where there is none."""
    return (str(error).strip().splitlines() or [""])[0]


class SeededByTrial(BaseSampler):
    """The configured sampler, made anew for every trial from the seed and the trial's number.

    A study that was stopped goes on as if it had not been, and no two workers draw the same.
    """

    def __init__(self, tune: TuneSettings) -> None:
        self.tune, self.sampler = tune, make_sampler(tune, 0)

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        self.sampler = make_sampler(self.tune, trial.number)
        self.sampler.before_trial(study, trial)

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return self.sampler.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return self.sampler.sample_relative(study, trial, search_space)

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        return self.sampler.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        self.sampler.after_trial(study, trial, state, values)


def make_sampler(tune: TuneSettings, number: int) -> BaseSampler:
    """The sampler of trial `number`, whose draws depend on the seed, the number and the history."""
    seed = random.Random(f"{tune.seed}/{number}").randrange(2**31)
    startup = tune.n_startup_trials
    with experimental():
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
    with experimental():
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
    return "\n".join(lines)


def open_study(config: TuneConfig) -> optuna.Study:
    """Create the study or open it.

    Raises `SettingsError` where space, direction or training settings differ from the stored ones,
    or the storage cannot be written.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    tune = config.tune
    storage_address(tune)  # refused before the folder is made
    try:
        with locked(Path(tune.folder) / LOCK):
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
        sampler=SeededByTrial(tune),
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
