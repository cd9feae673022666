import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import optuna
import pytest

from leakdet.config import SearchParam, TuneConfig
from leakdet.errors import SettingsError
from leakdet.tuning import storages
from leakdet.tuning.study import open_study

Settings = Callable[..., TuneConfig]
Tuned = Callable[..., optuna.Study]
LR = SearchParam(setting="optimizer.lr", low=1e-4, high=1e-1, log=True)
WIDER = SearchParam(setting="optimizer.lr", low=1e-4, high=1.0, log=True)
DROPOUT = SearchParam(setting="network.dropout", low=0.0, high=0.5, step=0.25)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"objective": "loss"}, "direction"),
        ({"repeats": 2}, "repeats"),
        ({"folds": 2}, "folds"),
        ({"search": {"lr": WIDER, "dropout": DROPOUT}}, r"space\.lr\.high: 0.1 / 1"),
        ({"search": {"lr": LR}}, r"space\.dropout"),
    ],
)
def test_another_search_under_the_same_name_is_refused(
    settings: Settings, tuned: Tuned, change: dict, said: str
) -> None:
    tuned(settings(n_trials=1))
    with pytest.raises(SettingsError, match=said) as caught:
        open_study(settings(**change))
    assert "tune.study=" in str(caught.value)


def test_other_training_settings_are_refused_too(settings: Settings, tuned: Tuned) -> None:
    tuned(settings(n_trials=1))
    config = settings(n_trials=2)
    config.patience = 3
    with pytest.raises(SettingsError, match=r"training\.patience: 15 / 3"):
        open_study(config)


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


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[str]:
    """Optuna's server in front of a journal, as docs/tuning.md starts it."""
    pytest.importorskip("grpc", reason="grpcio is not installed: pip install grpcio protobuf")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serve = (
        "import optuna as o; from optuna.storages.journal import JournalFileBackend as F; "
        f"o.storages.run_grpc_proxy_server(o.storages.JournalStorage(F('study.journal')), host='127.0.0.1', port={port})"
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
