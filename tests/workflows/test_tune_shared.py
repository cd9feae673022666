"""Several workers on one study through a PostgreSQL server and through Hydra's joblib launcher."""

import importlib.util
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from leakdet.tuning.study import finished

TINY = ("experiment=smoke", "demo.sites=6", "demo.recordings_per_site=4", "demo.duration_s=1.5")
SEARCH = ("search=small", "tune.finish=false", "tune.n_trials=4", "tune.workers=2")
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


def tune(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "leakdet.tune", "-m", *TINY, *SEARCH, *arguments]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240)
    printed = process.stdout + process.stderr
    assert process.returncode == 0, printed
    assert "Traceback" not in printed, printed
    return printed


def check(study: optuna.Study) -> None:
    assert len(finished(study.trials)) == len(study.trials) == 4
    assert {t.state for t in study.trials} <= {TrialState.COMPLETE, TrialState.PRUNED}
    assert len({str(t.params) for t in study.trials}) == 4


@pytest.mark.slow
def test_two_workers_on_postgresql(server: str, tmp_path: Path) -> None:
    tune(tmp_path, f"tune.storage={server}", "tune.study=shared")
    assert not list(tmp_path.rglob("*.journal"))
    storage = optuna.storages.RDBStorage(server)
    try:
        check(optuna.load_study(study_name="shared", storage=storage))
    finally:
        storage.remove_session()
        storage.engine.dispose()


@pytest.mark.slow
def test_two_workers_through_the_joblib_launcher(tmp_path: Path) -> None:
    if not (
        importlib.util.find_spec("hydra_plugins")
        and importlib.util.find_spec("hydra_plugins.hydra_joblib_launcher")
    ):
        pytest.skip("hydra-joblib-launcher is not installed")
    tune(tmp_path, "hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "tune.study=joblib")
    path = tmp_path / "runs" / "tune" / "joblib" / "study.db"
    check(optuna.load_study(study_name="joblib", storage=f"sqlite:///{path}"))
