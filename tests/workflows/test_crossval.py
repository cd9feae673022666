"""`crossval` as a sweep of jobs that share their folds, and stopped by a signal."""

import json
import os
import re
import shlex
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lightning.pytorch.callbacks import Callback

from leakdet.training import trainer as trainer_module


def test_jobs_of_a_sweep_share_the_folds_and_the_last_one_pools_them(
    site_store: Path, tmp_path: Path, forked: Any, schema_errors: Any
) -> None:
    """In parallel, by the joblib launcher."""
    pytest.importorskip(
        "hydra_plugins.hydra_joblib_launcher", reason="hydra-joblib-launcher is not installed"
    )
    settings = (f"data.store={site_store}", "network=linear", "trainer.max_epochs=2")
    settings += ("crossval.group_by=sensor", "crossval.where={site:[s0,s1]}")
    jobs = ("crossval.parts=2", "crossval.part=0,1", "hydra.sweep.dir=sweep")
    sweep = forked("crossval", "-m", "hydra/launcher=joblib", *settings, *jobs, cwd=tmp_path)
    printed = sweep.wait()
    assert sweep.returncode == 0, printed
    content = json.loads((tmp_path / "sweep" / "metrics.json").read_text(encoding="utf-8"))
    assert schema_errors(content) == []
    assert content["crossval"]["leave-out-sensor"]["recording"]["n"] == 16
    assert printed.count("leave-out-sensor: holds out sensor") == 2
    assert printed.count("verdict  ") == 1
    scores = [
        json.loads(file.read_text(encoding="utf-8"))["scores"]
        for file in sorted((tmp_path / "sweep" / "folds").glob("*.json"))
    ]
    assert [len(fold) for fold in scores] == [8, 8]
    assert np.isfinite([value for fold in scores for value in fold.values()]).all()


class SignalInFold(Callback):
    """Sends this process a signal in the first step of a fold."""

    trainings = 0

    def __init__(self, number: int, fold: int) -> None:
        self.number, self.fold = number, fold

    def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
        if trainer.global_step == 0:
            SignalInFold.trainings += 1
            if SignalInFold.trainings == self.fold:
                os.kill(os.getpid(), self.number)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_one_keeps_its_folds_and_names_the_command_that_goes_on(
    site_store: Path, tmp_path: Path, door: Any, monkeypatch: Any, number: int, code: int
) -> None:
    words = (str(site_store), "network=linear", "trainer.max_epochs=2", "stop.name=val")
    words += ("crossval.group_by=[site]", "hydra.run.dir=a run")
    plain = trainer_module.make_callbacks
    stopper = SignalInFold(number, fold=2)
    monkeypatch.setattr(SignalInFold, "trainings", 0)
    with monkeypatch.context() as patched:
        patched.setattr(trainer_module, "make_callbacks", lambda *a: [*plain(*a), stopper])
        result = door("crossval", *words, cwd=tmp_path)
    assert result.returncode == code, result.stderr
    said = result.stderr.splitlines()[-2:]
    name = signal.Signals(number).name
    assert said[0] == f"stopped by {name}; 1 finished fold is kept in a run"
    command = shlex.split(said[1].removeprefix("to continue: "))
    assert command[:2] == ["leakdet", "crossval"]
    (first,) = (tmp_path / "a run" / "folds").glob("*.json")
    written_ns = first.stat().st_mtime_ns
    result = door("crossval", *command[2:], cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert re.search("1 of 3 folds are done .*a run", result.stdout)
    assert first.stat().st_mtime_ns == written_ns
    assert len(list((tmp_path / "a run" / "folds").iterdir())) == 3
    assert (tmp_path / "a run" / "metrics.json").exists()


def test_resume_is_answered_with_how_a_cross_validation_goes_on(
    site_store: Path, tmp_path: Path, door: Any
) -> None:
    (tmp_path / "earlier").mkdir()
    result = door("crossval", f"data.store={site_store}", "resume=earlier", cwd=tmp_path)
    assert result.returncode == 2
    assert "crossval.out=FOLDER" in result.stderr
    assert [path.name for path in tmp_path.iterdir() if path.name == "runs"] == []
