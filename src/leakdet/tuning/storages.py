"""Storage of a study: a journal file, a database, or a server in front of one of them."""

import warnings
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import optuna
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial

from leakdet.config import TuneSettings
from leakdet.errors import SettingsError
from leakdet.tuning.trials import requeue

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
