"""Opening a study: its storage, its sampler and pruner, and the promise that it is still the same search."""

import json
import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from fcntl import LOCK_EX, LOCK_UN, flock
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import optuna
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial

from leakdet.config import TuneConfig, TuneSettings
from leakdet.errors import SettingsError
from leakdet.tuning.space import described, grid
from leakdet.tuning.trials import requeue

PROMISE = "leakdet"  # study attribute: what must not change while a study goes on
JOURNAL = "study.journal"
HEARTBEAT_S = 30
DATABASE_WAIT_S = 60


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Exclusive among the processes that see this file; the system releases it when its holder dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        flock(file, LOCK_EX)
        try:
            yield
        finally:
            flock(file, LOCK_UN)


def open_storage(tune: TuneSettings) -> BaseStorage:
    """The study's storage. Raises `SettingsError` where its address, its package or its server is not there."""
    where = tune.storage or str(Path(tune.folder) / JOURNAL)
    scheme = urlparse(where).scheme if "://" in where else ""
    if scheme == "grpc":
        address = urlparse(where)
        return optuna.storages.GrpcStorageProxy(
            host=address.hostname or "localhost", port=address.port or 13000
        )
    return _database(where, tune.max_retries) if scheme else _journal(Path(where))


def _proxy(where: str) -> BaseStorage:
    """A storage server that `optuna.storages.run_grpc_proxy_server` runs on another host."""
    address = urlparse(where)
    try:
        return optuna.storages.GrpcStorageProxy(
            host=address.hostname or "localhost", port=address.port or 13000
        )
    except ImportError as error:
        raise SettingsError(
            f"tune.storage={where} needs a package that is not installed: pip install grpcio."
        ) from error


def _journal(path: Path) -> BaseStorage:
    from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock

    path.parent.mkdir(parents=True, exist_ok=True)
    _drop_torn_line(path, JournalFileSymlinkLock(str(path)))
    try:
        return optuna.storages.JournalStorage(JournalFileBackend(str(path)))
    except (ValueError, KeyError) as error:
        raise SettingsError(f"tune.storage: {path} is no journal of Optuna's ({error}).") from error


def _drop_torn_line(path: Path, lock: Any) -> None:
    """A crash of the machine may leave half a line at the end, onto which the next entry would be glued."""
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
        requeue(study, trial, "its heartbeat stopped", tell=False, most=retries)

    shown = (
        f"{urlparse(url).scheme}://{urlparse(url).hostname or ''}{urlparse(url).path}"  # without its password
    )
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
            f"tune.storage={shown} needs a database driver that is not installed: pip install 'leakdet[postgres]'."
        ) from error
    except (SQLAlchemyError, ValueError) as error:
        cause = str(error).splitlines()[0]
        raise SettingsError(f"tune.storage={shown} cannot be opened: {cause}") from error


def open_study(config: TuneConfig) -> optuna.Study:
    """Create the study, or go on with it. Raises `SettingsError` where space, direction or training settings differ."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    tune = config.tune
    direction = "maximize" if tune.maximises else "minimize"
    with locked(Path(tune.folder) / "draw.lock"):
        storage = open_storage(tune)
        study = optuna.create_study(
            study_name=tune.study,
            storage=storage,
            direction=StudyDirection[direction.upper()],
            sampler=make_sampler(tune, 0),
            pruner=make_pruner(config),
            load_if_exists=True,
        )
        _keep_promise(study, config, direction)
    return study


def _keep_promise(study: optuna.Study, config: TuneConfig, direction: str) -> None:
    promise = {
        "direction": direction,
        "objective": config.tune.objective,
        "repeats": config.tune.repeats,
        "space": described(config.search),
        "training": {k: v for k, v in asdict(config.training()).items() if k not in ("logger", "threads")},
    }
    promise = json.loads(json.dumps(promise))
    kept = study.user_attrs.get(PROMISE)
    if kept is None and study.direction.name.lower() == direction and not study.get_trials(deepcopy=False):
        study.set_user_attr(PROMISE, promise)
        if config.tune.sampler == "grid":
            _enqueue_grid(study, config)
        return
    kept = kept or {"direction": study.direction.name.lower()}
    changed = list(_differences(kept, promise))
    if changed:
        raise SettingsError(
            f"The study {config.tune.study!r} was started with another search, and its trials cannot be compared with new "
            f"ones (stored / now): {'; '.join(changed[:6])}{' ...' if len(changed) > 6 else ''}. "
            "Name a new study, tune.study=NAME, or go back to the stored settings."
        )


def _differences(kept: Any, now: Any, path: str = "") -> Iterator[str]:
    if isinstance(kept, dict) and isinstance(now, dict):
        for key in sorted(kept.keys() | now.keys()):
            yield from _differences(kept.get(key), now.get(key), f"{path}.{key}" if path else key)
    elif kept != now:
        yield f"{path}: {json.dumps(kept)} / {json.dumps(now)}"


def _enqueue_grid(study: optuna.Study, config: TuneConfig) -> None:
    combinations = grid(config.search)
    random.Random(config.tune.seed).shuffle(combinations)  # a part of a grid is then no corner of it
    for drawn in combinations[: config.tune.n_trials]:
        study.enqueue_trial(drawn)


def make_sampler(tune: TuneSettings, number: int) -> BaseSampler:
    """The sampler of trial `number`. Its draws depend on the seed, the number and the history alone, so that a study that
    was stopped goes on as if it had not been, and no two workers draw the same.
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
                return _cmaes(seed, startup)
            case _:  # the grid's combinations are enqueued
                return optuna.samplers.RandomSampler(seed=seed)


def _cmaes(seed: int, startup: int) -> BaseSampler:
    try:
        sampler = optuna.samplers.CmaEsSampler(
            seed=seed, n_startup_trials=startup, warn_independent_sampling=False
        )
    except ImportError as error:
        raise SettingsError(
            "tune.sampler=cmaes needs a package that is not installed: pip install cmaes."
        ) from error
    return sampler


def make_pruner(config: TuneConfig) -> BasePruner:
    """From the settings each time: a study does not store its pruner."""
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
                    optuna.pruners.SuccessiveHalvingPruner(least, reduction_factor=tune.reduction_factor),
                    tune,
                )
            case "hyperband":
                most = max(least + 1, int(config.trainer.get("max_epochs") or 100))
                return Patient(optuna.pruners.HyperbandPruner(least, most, tune.reduction_factor), tune)
            case "wilcoxon":
                return optuna.pruners.WilcoxonPruner(n_startup_steps=1)
            case _:
                return optuna.pruners.NopPruner()


class Patient(BasePruner):
    """A pruner that waits: for `n_warmup` checks of a trial, and for `n_min_trials` other trials at that check."""

    def __init__(self, pruner: BasePruner, tune: TuneSettings) -> None:
        self.pruner, self.n_warmup, self.n_min_trials = pruner, tune.n_warmup, tune.n_min_trials

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        step = trial.last_step
        if step is None or step < self.n_warmup:
            return False
        there = [
            t
            for t in study.get_trials(deepcopy=False)
            if step in t.intermediate_values and t.number != trial.number
        ]
        return self.pruner.prune(study, trial) and len(there) >= self.n_min_trials


def fail_silent(study: optuna.Study) -> None:
    """Databases only: running trials of other hosts whose heartbeat stopped become FAIL and are queued again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        optuna.storages.fail_stale_trials(study)
