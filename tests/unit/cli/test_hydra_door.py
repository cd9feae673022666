"""A command with Hydra's command line: settings, folder and exit code."""

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hydra.core.global_hydra import GlobalHydra

from leakdet._exit_codes import DONE, PARTLY, WRONG
from leakdet._messages import LOG
from leakdet.cli import hydra_door
from leakdet.cli.hydra_door import Run, check_sweep, open_door
from leakdet.config import TrainConfig
from leakdet.errors import InputError, SettingsError

Calls = list[tuple[TrainConfig, Run]]
Open = Callable[..., int]


@pytest.fixture
def open_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Open the door of train with a task of the test's, in an empty folder; its exit code."""

    def run(task: Callable[[Any, Run], int], *arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["leakdet train", *arguments])
        with pytest.raises(SystemExit) as stop:
            open_door("train", task)
        assert isinstance(stop.value.code, int)
        return stop.value.code

    monkeypatch.chdir(tmp_path)
    yield run
    GlobalHydra.instance().clear()


def test_the_task_gets_typed_settings_and_the_folder_of_the_run(
    open_train: Open, tmp_path: Path
) -> None:
    calls: Calls = []
    (tmp_path / "a b, c=d").mkdir()
    (tmp_path / "a b, c=d" / "train.h5").touch()
    words = ("seed=7", "data.store=a b, c=d", "hydra.run.dir=my run")
    assert open_train(lambda *call: calls.append(call) or PARTLY, *words) == PARTLY
    ((config, run),) = calls
    assert isinstance(config, TrainConfig)
    assert (config.seed, config.data.store) == (7, "a b, c=d")
    assert run.folder.resolve() == tmp_path / "my run"
    assert (run.multirun, run.launcher) == (False, "basic")
    assert run.folder.is_dir()


def test_of_several_jobs_the_worst_code_counts(open_train: Open) -> None:
    calls: Calls = []
    codes = iter([DONE, PARTLY, DONE])
    words = ("-m", "seed=1,2,3", "hydra.sweep.dir=sweep")
    assert open_train(lambda *call: calls.append(call) or next(codes), *words) == PARTLY
    assert [(config.seed, run.multirun) for config, run in calls] == [
        (seed, True) for seed in (1, 2, 3)
    ]
    assert len({run.folder for _, run in calls}) == 3


def test_an_error_of_the_user_is_a_line(
    open_train: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    def task(config: TrainConfig, run: Run) -> int:
        raise InputError("store: there is no such store.")

    assert open_train(task, "hydra.run.dir=.") == WRONG
    assert capsys.readouterr().err == "error: store: there is no such store.\n"


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("sed=1", "sed"),
        ("network.dropout=2", "network.dropout=2"),
        ("experiment=none.yaml", "error: experiment=none.yaml: there is no such file."),
    ],
)
def test_settings_that_do_not_compose_never_reach_the_task(
    word: str, message: str, open_train: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: Calls = []
    assert open_train(lambda *call: calls.append(call) or DONE, word, "hydra.run.dir=.") == WRONG
    assert calls == []
    assert message in capsys.readouterr().err


def test_help_is_no_error(open_train: Open, capsys: pytest.CaptureFixture[str]) -> None:
    assert open_train(lambda *_: WRONG, "--help") == DONE
    assert "network" in capsys.readouterr().out


def test_a_failed_job_in_a_launchers_process_is_an_error_to_hydra(
    open_train: Open, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = itertools.count(1)
    monkeypatch.setattr(hydra_door.os, "getpid", lambda: next(numbers))
    assert open_train(lambda *_: PARTLY, "hydra.run.dir=.") == WRONG
    assert "this job ended with exit code 1" in capsys.readouterr().err


def test_messages_are_printed_once(open_train: Open, capsys: pytest.CaptureFixture[str]) -> None:
    def task(config: TrainConfig, run: Run) -> int:
        LOG.info("halfway")
        return DONE

    assert open_train(task, "hydra.run.dir=.") == DONE
    assert capsys.readouterr().out.splitlines().count("halfway") == 1


def test_a_reader_of_help_may_stop_early(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "leakdet.build", "--help"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == DONE


@pytest.mark.parametrize(
    ("door", "sweep", "advice"),
    [
        ("tune", "optimizer.weight_decay=.1,.01", "Search this setting"),
        ("tune", "search=small,default", "once for each value, each with its own tune.study"),
        ("tune", "tune.n_trials=range(3,5)", "one study"),
        ("crossval", "optimizer.lr=1e-3,1e-4", "share their folds"),
    ],
)
def test_a_sweep_over_what_jobs_share_is_refused(door: str, sweep: str, advice: str) -> None:
    with pytest.raises(SettingsError, match=advice) as refused:
        check_sweep(door, ["-m", "seed=1", sweep])
    assert str(refused.value).startswith(f"{sweep}: ")


@pytest.mark.parametrize(
    ("door", "arguments"),
    [
        ("crossval", ["-m", "crossval.parts=2", "crossval.part=0,1", "crossval.group_by=[a,b]"]),
        ("tune", ["--multirun", "tune.worker=0,1", "~search.lr", "data.store='a,b'"]),
        ("train", ["-m", "optimizer.lr=1e-3,1e-4"]),
        ("tune", ["optimizer.lr=1,2"]),  # without -m Hydra refuses it
        ("tune", ["-m", "no setting"]),  # so it does this
    ],
)
def test_other_sweeps_are_left_to_hydra(door: str, arguments: list[str]) -> None:
    check_sweep(door, arguments)
