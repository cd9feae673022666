import contextlib
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState
from sqlalchemy import text

from leakdet.config import TuneConfig
from leakdet.errors import SettingsError
from leakdet.tuning import storages
from leakdet.tuning.storages import fail_stale, open_storage
from leakdet.tuning.study import open_study
from leakdet.tuning.trials import RETRY_OF

Settings = Callable[..., TuneConfig]
Tuned = Callable[..., optuna.Study]


def test_a_file_that_is_no_journal_is_refused(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("{}\n")
    with pytest.raises(SettingsError, match=r"notes\.txt is no journal of Optuna"):
        open_storage(settings(storage=str(tmp_path / "notes.txt")).tune)


def test_a_trial_in_a_database_sends_heartbeats_and_is_queued_again_without(
    settings: Settings, tuned: Tuned, tmp_path: Path
) -> None:
    config = settings(storage=f"sqlite:///{tmp_path / 'study.db'}", n_trials=1)
    study = tuned(config)
    storage = open_storage(config.tune)
    assert isinstance(storage, optuna.storages.RDBStorage)
    with storage.engine.connect() as connection:
        beats = connection.execute(text("select count(*) from trial_heartbeats")).scalar()
        assert beats == 1
    with pytest.warns(UserWarning, match="Heartbeat of storage"):
        stale = study.ask()
    study._storage.record_heartbeat(stale._trial_id)
    with storage.engine.begin() as connection:
        connection.execute(text("update trial_heartbeats set heartbeat = '2001-01-01'"))
    fail_stale(study)
    states = [trial.state for trial in study.get_trials(deepcopy=False)]
    assert states == [TrialState.COMPLETE, TrialState.FAIL, TrialState.WAITING]
    assert study.trials[2].user_attrs[RETRY_OF] == 1
    for each in (storage, study._storage._backend):
        each.remove_session()
        each.engine.dispose()


def test_half_a_line_at_the_journals_end_is_dropped(settings: Settings, tuned: Tuned) -> None:
    config = settings(n_trials=2)
    tuned(config)
    with (Path(config.tune.folder) / "study.journal").open("ab") as file:
        file.write(b'{"op_code": 5, "wor')
    assert len(tuned(settings(n_trials=3)).trials) == 3


def test_a_database_that_is_not_there_is_told_without_its_password(settings: Settings) -> None:
    with pytest.raises(SettingsError) as caught:
        open_study(settings(storage="sqlite:////no/such/folder/study.db"))
    assert "cannot be opened" in str(caught.value)
    with pytest.raises(SettingsError) as caught:
        open_study(settings(storage="postgresql+nodriver://me:secret@localhost/x"))
    assert "secret" not in str(caught.value)


def changed(path: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        for statement in statements:
            database.execute(statement)


def test_a_database_of_another_version_or_that_may_not_be_written_is_told(
    settings: Settings, tmp_path: Path
) -> None:
    path = tmp_path / "study.db"
    config = settings(storage=f"sqlite:///{path}")
    storage = open_study(config)._storage._backend
    storage.remove_session()
    storage.engine.dispose()
    read_only = settings(storage=f"sqlite:///file:{path}?mode=ro&uri=true", study="another")
    with pytest.raises(
        SettingsError, match=r"study\.db cannot be written: .*readonly.*tune\.folder"
    ):
        open_study(read_only)
    changed(
        path,
        "UPDATE version_info SET schema_version=11, library_version='2.0.0'",
        "UPDATE alembic_version SET version_num='v2.6.0.a'",
    )
    with pytest.raises(SettingsError, match=r"study\.db cannot be used: .*optuna storage upgrade"):
        open_study(config)


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[str]:
    """Optuna's server in front of a journal, as docs/tuning.md starts it."""
    pytest.importorskip("grpc", reason="grpcio is not installed: pip install grpcio protobuf")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serve = (
        "import optuna as o; from optuna.storages.journal import JournalFileBackend as F; "
        "journal = o.storages.JournalStorage(F('study.journal')); "
        f"o.storages.run_grpc_proxy_server(journal, host='127.0.0.1', port={port})"
    )
    with subprocess.Popen(
        [sys.executable, "-c", serve], cwd=tmp_path, stderr=subprocess.DEVNULL
    ) as server:
        yield f"grpc://127.0.0.1:{port}"
        server.kill()


def test_a_study_runs_through_optunas_proxy(
    settings: Settings, tuned: Tuned, tmp_path: Path, proxy: str
) -> None:
    tuned(settings(n_trials=3, storage=proxy))
    backend = optuna.storages.journal.JournalFileBackend(str(tmp_path / "study.journal"))
    behind = optuna.load_study(
        study_name="default", storage=optuna.storages.JournalStorage(backend)
    )
    assert [trial.state.name for trial in behind.trials] == ["COMPLETE"] * 3


def test_a_proxy_that_is_not_there_is_told(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("grpc", reason="grpcio is not installed: pip install grpcio protobuf")
    monkeypatch.setattr(storages, "SERVER_WAIT_S", 1)
    with pytest.raises(SettingsError, match="nothing answered for 1 s"):
        open_study(settings(storage="grpc://127.0.0.1:1"))
