"""One study of two commands through a PostgreSQL server, and of two jobs of Hydra's launcher."""

import importlib.util
import os
import pwd
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

from leakdet.tuning.study import finished

TINY = ("experiment=smoke", "demo.sites=6", "demo.recordings_per_site=4", "demo.duration_s=1.5")
SEARCH = ("search=small", "tune.finish=false", "tune.n_trials=4")
Forked = Callable[..., Any]
SERVERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
PORT = 54329


def as_nobody(command: Sequence[str]) -> list[str]:
    """The command run by the user nobody: PostgreSQL refuses to run as root."""
    return [*(["runuser", "-u", "nobody", "--"] if os.getuid() == 0 else []), *command]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if not SERVERS:
        pytest.skip("no PostgreSQL server is installed (Debian: apt-get install postgresql)")
    pytest.importorskip("psycopg", reason="psycopg is an extra: pip install 'leakdet[postgres]'")
    programs, folder = SERVERS[-1], Path("/tmp") / f"leakdet-postgres-{os.getpid()}"
    folder.mkdir()
    try:
        if os.getuid() == 0:
            os.chown(folder, pwd.getpwnam("nobody").pw_uid, -1)
        data, control = folder / "data", str(programs / "pg_ctl")
        options = f"-p {PORT} -k {folder} -h ''"
        initdb = [str(programs / "initdb"), "-D", str(data)]
        commands = (
            [*initdb, "-A", "trust", "-U", "leakdet", "--no-sync"],
            [control, "-D", str(data), "-o", options, "-l", str(folder / "log"), "-w", "start"],
        )
        for command in commands:
            subprocess.run(
                as_nobody(command), check=True, cwd=folder, stdout=subprocess.DEVNULL, timeout=120
            )
        yield f"postgresql://leakdet@/postgres?host={folder}&port={PORT}"
        stop = as_nobody([control, "-D", str(data), "-m", "fast", "stop"])
        subprocess.run(stop, check=True, cwd=folder, stdout=subprocess.DEVNULL)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def end(process: Any) -> None:
    printed = process.wait()
    assert process.returncode == 0, printed
    assert "Traceback" not in printed, printed


def check(study: optuna.Study) -> None:
    assert len(finished(study.trials)) == len(study.trials) == 4
    assert {t.state for t in study.trials} <= {TrialState.COMPLETE, TrialState.PRUNED}
    assert len({str(t.params) for t in study.trials}) == 4


@pytest.mark.slow
def test_two_commands_on_postgresql(server: str, tmp_path: Path, forked: Forked) -> None:
    words = (*TINY, *SEARCH, f"tune.storage={server}", "tune.study=shared")
    for process in [forked("tune", *words, cwd=tmp_path) for _ in range(2)]:
        end(process)
    assert not list(tmp_path.rglob("*.journal"))
    storage = optuna.storages.RDBStorage(server)
    try:
        check(optuna.load_study(study_name="shared", storage=storage))
    finally:
        storage.remove_session()
        storage.engine.dispose()


@pytest.mark.slow
def test_two_workers_through_the_joblib_launcher(tmp_path: Path, forked: Forked) -> None:
    if not (
        importlib.util.find_spec("hydra_plugins")
        and importlib.util.find_spec("hydra_plugins.hydra_joblib_launcher")
    ):
        pytest.skip("hydra-joblib-launcher is not installed")
    launcher = ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "tune.workers=2")
    end(forked("tune", "-m", *TINY, *SEARCH, *launcher, "tune.study=joblib", cwd=tmp_path))
    path = tmp_path / "runs" / "tune" / "joblib" / "study.db"
    check(optuna.load_study(study_name="joblib", storage=f"sqlite:///{path}"))
