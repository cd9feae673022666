"""`tune`: parallel workers, kill -9, Ctrl-C, the result, and its winner in `train`."""

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.exceptions import StorageInternalError
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError
from tests.conftest import lines_told

from leakdet.tuning import study as study_module
from leakdet.tuning.results import same_f1
from leakdet.tuning.study import CHECKS, KILLED, OWNER, finished, reason_of_failure

TINY = ("experiment=smoke", "demo.sites=6", "demo.recordings_per_site=4", "demo.duration_s=1.5")
TINY += ("search=small",)
# Trials so slow that a test can step in between two checks on any machine.
SLOW = """import time
from lightning.pytorch.callbacks import Callback

class Slow(Callback):
    def on_validation_end(self, *_: object) -> None:
        time.sleep(0.5)
"""
SLOWED = "callbacks.extra=[slow_checks:Slow]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tune")
    (made / "slow_checks.py").write_text(SLOW)
    return made


Start = Callable[..., Any]


@pytest.fixture
def start(folder: Path, forked: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Start:
    """Start `leakdet tune`, which takes a trial for killed after so many seconds of no heartbeat."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def tune(*arguments: str, grace_s: int = 60) -> Any:
        monkeypatch.setattr(study_module, "GRACE_S", grace_s)
        return forked("tune", *TINY, f"data.cache={folder / 'cache'}", *arguments, cwd=folder)

    return tune


def end(process: Any, code: int = 0) -> str:
    """What a command printed, once it has ended with `code`."""
    printed: str = process.wait()
    assert process.returncode == code, printed
    assert "Traceback" not in printed, printed
    return printed


def study(folder: Path, name: str) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    # Read only, so that it does not make what the command is about to make.
    path = f"file:{folder / 'runs' / 'tune' / name / 'study.db'}?mode=ro&uri=true"
    return optuna.load_study(study_name=name, storage=f"sqlite:///{path}")


def wait_for(folder: Path, name: str, ready: Callable[[optuna.Study], bool], process: Any) -> None:
    database, until = folder / "runs" / "tune" / name / "study.db", time.monotonic() + 120
    while time.monotonic() < until:
        assert process.poll() is None, process.wait()
        if database.exists():
            try:
                if ready(study(folder, name)):
                    return
            except (KeyError, SQLAlchemyError, StorageInternalError):  # it is being created
                pass
        time.sleep(0.2)
    raise AssertionError("the study did not get that far")


def trains(study: optuna.Study) -> bool:
    """Whether a trial is past its first validation check, in the middle of its training."""
    return any(t.state == TrialState.RUNNING and t.intermediate_values for t in study.trials)


@pytest.mark.slow
def test_two_workers_share_a_study_one_is_killed_and_train_reproduces_the_winner(
    folder: Path, start: Start, door: Callable[..., Any]
) -> None:
    # Hard enough that not every training reaches an F1 of 1.
    hard = ("demo.sites=12", "demo.recordings_per_site=8", "demo.difficulty=3")
    # Long enough that the second worker starts before the first is done.
    long = ("trainer.max_epochs=8", "patience=8", SLOWED)
    search = ("tune.workers=2", "tune.n_trials=7", "tune.study=two", "tune.pruner=none")
    # The grace is above the 10 s between two heartbeats.
    process = start("-m", *search, *hard, *long, grace_s=25)

    def others(trials: list[FrozenTrial]) -> set[TrialState]:
        """States of the trials of the second worker."""
        owners = [(t.state, t.user_attrs[OWNER]["pid"]) for t in trials if OWNER in t.user_attrs]
        return {state for state, pid in owners if pid != process.pid}

    both = {TrialState.COMPLETE, TrialState.RUNNING}
    wait_for(folder, "two", lambda s: both <= others(s.trials) and trains(s), process)
    running = study(folder, "two").get_trials(states=[TrialState.RUNNING])
    pids = [t.user_attrs[OWNER]["pid"] for t in running if OWNER in t.user_attrs]
    worker = next(pid for pid in pids if pid != process.pid)
    os.kill(worker, signal.SIGKILL)
    out = end(process)
    assert re.search(r"worker 1 .*\(signal 9\); .*queued again", out)
    place = folder / "runs" / "tune" / "two"
    trials = study(folder, "two").trials
    complete = finished(trials)
    assert [t.state for t in complete] == [TrialState.COMPLETE] * 7
    assert len({str(t.params) for t in complete}) == 7
    assert {t.user_attrs[OWNER]["pid"] for t in complete} == {process.pid, worker}
    failed = [t for t in trials if t.state == TrialState.FAIL]
    assert [t.user_attrs[OWNER]["pid"] for t in failed] == [worker]
    for trial in complete:
        assert sorted(trial.intermediate_values) == list(range(trial.user_attrs[CHECKS]))
    outcome = json.loads((place / "result.json").read_text())
    assert outcome["best"]["value"] < 1
    assert outcome["reproduced"] is True
    assert outcome["verdict"] in out
    assert "trials/h" in out
    assert "Validation checks" in (place / "tune.html").read_text(encoding="utf-8")
    best = place / "best.yaml"
    words = (f"+experiment={best}", "trust_network=[slow_checks:Slow]", "logger=none")
    result = door("train", *words, "hydra.run.dir=again", cwd=folder)
    assert result.returncode == 0, result.stdout + result.stderr
    again = json.loads((folder / "again" / "metrics.json").read_text())
    assert same_f1(again["val"]["recording"]["f1"], outcome["best"]["value"])


@pytest.mark.slow
def test_kill_9_loses_no_trial(folder: Path, start: Start) -> None:
    arguments = ("tune.study=killed", "tune.n_trials=5", "tune.finish=false")
    arguments += ("tune.n_startup_trials=2", SLOWED)
    process = start(*arguments)
    wait_for(folder, "killed", lambda s: len(finished(s.trials)) >= 2 and trains(s), process)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = {t.number: (t.params, t.value) for t in finished(study(folder, "killed").trials)}
    assert 2 <= len(before) < 5
    end(start(*arguments, grace_s=5))
    trials = study(folder, "killed").trials
    assert len(finished(trials)) == 5
    assert {t.state for t in trials} <= {TrialState.COMPLETE, TrialState.FAIL}
    assert {n: (trials[n].params, trials[n].value) for n in before} == before
    failed = [t for t in trials if t.state == TrialState.FAIL]
    assert [reason_of_failure(t) for t in failed] == [KILLED] * len(failed)
    assert all(t.params in [again.params for again in finished(trials)] for t in failed)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_trial_and_queues_it_again(
    folder: Path, start: Start, number: int, code: int
) -> None:
    name = f"signal-{int(number)}"
    arguments = (f"tune.study={name}", "tune.n_trials=2", "tune.finish=false")
    process = start(*arguments, SLOWED, "trainer.max_epochs=99", "patience=99")
    wait_for(folder, name, trains, process)
    os.kill(process.pid, number)
    out = end(process, code)
    assert "repeat the command" in out
    states = [t.state for t in study(folder, name).trials]
    assert states == [TrialState.FAIL, TrialState.WAITING]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["+search.x={setting: optimizer.lrr, low: 0.1, high: 2}"], "did you mean lr"),
        (["tune.workers=2"], "needs -m"),
        (["trainer.devices=2"], "one device"),
        (["tune.sampler=tpee"], "tpe, gp"),
        (["data.store=typo"], "typo"),
        (["-m", "optimizer.weight_decay=.1,.01"], "optimizer.weight_decay=.1,.01: "),
        (["optimizer.weight_decay=.1,.01", "-m"], "optimizer.weight_decay=.1,.01: "),
        (["tune.storage=postgresql+nodriver://me:secret@localhost/x"], "cannot be opened"),
    ],
)
def test_wrong_settings_are_refused_before_any_work(
    tmp_path: Path, door: Callable[..., Any], arguments: list[str], message: str
) -> None:
    result = door("tune", *TINY, f"data.cache={tmp_path}", *arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert message in result.stderr
    assert "secret" not in result.stderr
    assert not list(tmp_path.rglob("study.db"))
    assert not list(tmp_path.rglob("*.h5"))
    assert result.stderr.count("error: ") == 1


@pytest.mark.parametrize("verb", ["train", "tune", "crossval"])
@pytest.mark.parametrize(
    ("driver", "message"), [(False, "no GPU, or no driver"), (True, "torch finds no GPU")]
)
def test_a_missing_gpu_is_told_before_any_work(
    driver: bool,
    message: str,
    verb: str,
    tmp_path: Path,
    door: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where a GPU is there but this build of torch is one for CPUs."""
    monkeypatch.setattr("leakdet.cli.checks.has_gpu", lambda: driver)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    result = door(verb, "trainer=gpu", f"data.cache={tmp_path}", cwd=tmp_path)
    assert result.returncode == 2
    assert message in result.stderr
    assert not list(tmp_path.rglob("study.db"))
    assert not list(tmp_path.rglob("*.h5"))


def test_a_missing_sampler_is_told_before_any_work(
    tmp_path: Path, door: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cmaes", None)
    done = door("tune", *TINY, "tune.sampler=cmaes", f"data.cache={tmp_path}", cwd=tmp_path)
    assert done.returncode == 2
    assert "pip install cmaes" in done.stderr
    assert not list(tmp_path.rglob("study.db"))


def test_without_extras_a_study_ends_in_its_result_and_its_figures(
    tmp_path: Path, demo_cache: Path, door: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in an installation without extras."""
    for extra in ("plotly", "sklearn", "cmaes", "grpc"):
        monkeypatch.setitem(sys.modules, extra, None)
    short = ("tune.n_trials=2", "trainer.max_epochs=1", "trainer.enable_progress_bar=false")
    done = door("tune", "-m", *TINY, *short, f"data.cache={demo_cache}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(lines_told(done.stdout + done.stderr)) <= 15
    place = tmp_path / "runs" / "tune" / "default"
    result = json.loads((place / "result.json").read_text(encoding="utf-8"))
    assert result["verdict"] in done.stdout
    page = (place / "tune.html").read_text(encoding="utf-8")
    assert "Every trial" in page
    assert (place / re.findall(r'href="(best/[^"]*)"', page)[0]).is_file()
    again = door("tune", *TINY, *short, f"data.cache={demo_cache}", cwd=tmp_path)
    assert again.returncode == 0
    assert "The study is finished" in again.stdout
    assert "training" not in again.stdout
