"""The door as a person uses it: workers in parallel, kill -9, Ctrl-C, the result, and the winner run again by `train`."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

from leakdet.tuning.study_result import same_f1
from leakdet.tuning.trials import CHECKS, OWNER, finished

TINY = (
    "experiment=smoke",
    "demo.sites=6",
    "demo.recordings_per_site=4",
    "demo.duration_s=1.5",
    "search=small",
)
ENDLESS = "trainer.max_epochs=2000"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tune")


def start(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    command = [
        sys.executable,
        "-m",
        "leakdet.tune",
        *TINY,
        f"data.cache={folder / 'cache'}",
        *arguments,
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def tune(folder: Path, *arguments: str, code: int = 0) -> str:
    process = start(folder, *arguments)
    out, _ = process.communicate(timeout=240)
    assert process.returncode == code, out
    assert "Traceback" not in out, out
    return out


def study(folder: Path, name: str) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    backend = optuna.storages.journal.JournalFileBackend(
        str(folder / "runs" / "tune" / name / "study.journal")
    )
    return optuna.load_study(study_name=name, storage=optuna.storages.JournalStorage(backend))


def wait_for(
    folder: Path, name: str, ready: Callable[[optuna.Study], bool], process: "subprocess.Popen[str]"
) -> None:
    journal, until = folder / "runs" / "tune" / name / "study.journal", time.monotonic() + 120
    while time.monotonic() < until:
        assert process.poll() is None, process.communicate()[0]
        if journal.exists():
            try:
                if ready(study(folder, name)):
                    return
            except KeyError:  # the study is about to be created
                pass
        time.sleep(0.2)
    raise AssertionError("the study did not get that far")


def trains(found: optuna.Study) -> bool:
    """A trial past its first check: the process is in the middle of a training."""
    return any(t.state == TrialState.RUNNING and t.intermediate_values for t in found.trials)


@pytest.mark.slow
def test_two_workers_share_a_study_and_end_in_a_model_that_train_reproduces(
    folder: Path, door: Callable[..., Any]
) -> None:
    pytest.importorskip("plotly", reason="plotly draws tune.html")
    # Near guessing, for an F1 of 1 would be reproduced by anything.
    hard = ("demo.sites=16", "demo.recordings_per_site=12", "demo.difficulty=3")
    long_enough = (
        "trainer.max_epochs=40",
        "patience=40",
    )  # for the second worker to start before the first is done
    out = tune(
        folder,
        "-m",
        "tune.workers=2",
        "tune.n_trials=6",
        "tune.study=two",
        "tune.pruner=none",
        *hard,
        *long_enough,
    )
    found, place = study(folder, "two"), folder / "runs" / "tune" / "two"
    assert [t.state for t in found.trials] == [TrialState.COMPLETE] * 6
    assert len({str(t.params) for t in found.trials}) == 6
    assert len({t.user_attrs["owner"]["pid"] for t in found.trials}) == 2
    assert all(
        sorted(t.intermediate_values) == list(range(t.user_attrs[CHECKS])) for t in found.trials
    )
    result = json.loads((place / "result.json").read_text())
    assert result["best"]["value"] < 1
    assert result["reproduced"] is True
    assert result["verdict"] in out
    assert "trials/h" in out
    assert (place / "tune.html").stat().st_size > 1e6
    best = place / "best.yaml"
    done = door("train", f"+experiment={best}", "logger=none", "hydra.run.dir=again", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    again = json.loads((folder / "again" / "metrics.json").read_text())
    assert same_f1(again["val"]["recording"]["f1"], result["best"]["value"])


@pytest.mark.slow
def test_kill_9_loses_no_trial(folder: Path) -> None:
    arguments = (
        "tune.study=killed",
        "tune.n_trials=8",
        "tune.finish=false",
        "tune.n_startup_trials=2",
    )
    process = start(folder, *arguments)
    wait_for(folder, "killed", lambda s: len(finished(s.trials)) >= 3 and trains(s), process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    before = {t.number: (t.params, t.value) for t in finished(study(folder, "killed").trials)}
    assert 3 <= len(before) < 8
    tune(folder, *arguments)
    found = study(folder, "killed")
    assert len(finished(found.trials)) == 8
    assert {t.state for t in found.trials} <= {TrialState.COMPLETE, TrialState.FAIL}
    assert {n: (found.trials[n].params, found.trials[n].value) for n in before} == before
    failed = [t for t in found.trials if t.state == TrialState.FAIL]
    assert all("was killed" in t.user_attrs["reason"] for t in failed)
    assert all(t.params in [again.params for again in finished(found.trials)] for t in failed)


@pytest.mark.slow
def test_when_a_worker_is_killed_the_other_does_its_trial_too(folder: Path) -> None:
    arguments = (
        "-m",
        "tune.workers=2",
        "tune.study=one-killed",
        "tune.n_trials=4",
        "tune.finish=false",
    )
    process = start(folder, *arguments, "trainer.max_epochs=12", "tune.pruner=none")

    def both_train(found: optuna.Study) -> bool:
        return (
            sum(t.state == TrialState.RUNNING and OWNER in t.user_attrs for t in found.trials) == 2
        )

    wait_for(folder, "one-killed", both_train, process)
    owners = [
        t.user_attrs[OWNER]["pid"]
        for t in study(folder, "one-killed").trials
        if OWNER in t.user_attrs
    ]
    sibling = next(pid for pid in owners if pid != process.pid)
    os.kill(sibling, signal.SIGKILL)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0, out
    assert "worker 1 was killed (signal 9); its trial was queued again" in out
    found = study(folder, "one-killed")
    assert len(finished(found.trials)) == 4
    assert [t.state for t in finished(found.trials)] == [TrialState.COMPLETE] * 4
    assert [t.user_attrs[OWNER]["pid"] for t in found.trials if t.state == TrialState.FAIL] == [
        sibling
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_trial_and_is_told(folder: Path, number: int, code: int) -> None:
    name = f"signal-{int(number)}"
    process = start(
        folder,
        f"tune.study={name}",
        "tune.n_trials=2",
        "tune.finish=false",
        ENDLESS,
        "patience=2000",
    )
    wait_for(folder, name, trains, process)
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == code, out
    assert "goes on with the study" in out
    states = [t.state for t in study(folder, name).trials]
    assert states == [TrialState.FAIL, TrialState.WAITING]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["+search.x={setting: optimizer.lrr, low: 0.1, high: 2}"], "did you mean lr"),
        (["tune.workers=2"], "needs -m"),
        (["trainer.devices=2"], "one device"),
        (["tune.sampler=tpee"], "tpe, gp"),
        (["tune.storage=postgresql+nodriver://me:secret@localhost/x"], "cannot be opened"),
    ],
)
def test_what_a_person_can_get_wrong_is_said_before_any_work(
    tmp_path: Path, door: Callable[..., Any], arguments: list[str], said: str
) -> None:
    done = door("tune", *TINY, f"data.cache={tmp_path}", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "secret" not in done.stderr
    assert not list(tmp_path.rglob("study.journal"))
    assert not list(tmp_path.rglob("*.h5"))
