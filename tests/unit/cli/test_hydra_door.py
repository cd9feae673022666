"""A command with Hydra's command line: settings, folder and exit code."""

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import hydra
import pytest
from hydra.core.global_hydra import GlobalHydra

from leakdet._exit_codes import DONE, PARTLY, WRONG
from leakdet._messages import LOG
from leakdet.cli import hydra_door
from leakdet.cli.hydra_door import Run, open_door
from leakdet.cli.run_folder import claimed
from leakdet.config import TrainConfig
from leakdet.errors import InputError

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


def test_the_settings_of_a_run_are_composed_once_before_hydra_does(
    open_train: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    composed = Mock(side_effect=hydra.compose)
    monkeypatch.setattr("hydra.compose", composed)
    assert open_train(lambda *_: DONE, "seed=7") == DONE
    assert composed.call_count == 1


@pytest.mark.parametrize("words", [(), ("-m", "seed=1,2")])
def test_runs_of_one_second_get_folders_of_their_own(
    open_train: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    calls: Calls = []
    stopped = Mock(now=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    monkeypatch.setattr("hydra.core.utils.datetime", stopped)

    def task(*call: Any) -> int:
        (call[1].folder / "result").touch(exist_ok=False)
        calls.append(call)
        return DONE

    for _ in range(2):
        assert open_train(task, *words) == DONE
    folders = {run.folder.relative_to(tmp_path / "runs" / "train").parts[0] for _, run in calls}
    assert folders == {"2026-01-01_00-00-00", "2026-01-01_00-00-00-2"}


def test_a_folder_of_a_running_training_is_left_alone(
    open_train: Open, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: Calls = []
    with claimed(tmp_path / "mine"):
        words = ("hydra.run.dir=mine", "seed=1")
        assert open_train(lambda *call: calls.append(call) or DONE, *words) == WRONG
        assert list((tmp_path / "mine").iterdir()) == []
    assert calls == []
    assert "mine: another run is writing to this folder" in capsys.readouterr().err


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
    followed: list[int | None] = []  # following it in earnest would end the tests' own process
    monkeypatch.setattr(hydra_door, "follow_parent", followed.append)
    assert open_train(lambda *_: PARTLY, "hydra.run.dir=.") == WRONG
    assert len(followed) == 1
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


def test_a_sweep_with_a_wrong_value_never_begins(
    open_train: Open, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: Calls = []
    words = ("-m", "seed=1,2", "network.dropout=0.1,2")
    assert open_train(lambda *call: calls.append(call) or DONE, *words) == WRONG
    assert calls == []
    assert "network.dropout=2" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_into_the_folder_of_another_is_refused_and_touches_nothing(
    open_train: Open, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sweep" / "1" / "checkpoints").mkdir(parents=True)
    (tmp_path / "sweep" / "1" / "checkpoints" / "last.ckpt").touch()
    before = sorted(tmp_path.rglob("*"))
    assert open_train(lambda *_: DONE, "-m", "seed=1,2", "hydra.sweep.dir=sweep") == WRONG
    assert "sweep/1: holds a run already" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_sweep_that_fails_leaves_no_folder_and_tells_each_job(
    open_train: Open, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(config: TrainConfig, run: Run) -> int:
        raise InputError(f"seed {config.seed} is unlucky.")

    assert open_train(fail, "-m", "seed=1,2", "patience=3") == WRONG
    printed = capsys.readouterr()
    assert printed.err.splitlines() == [
        "error: seed 1 is unlucky.",
        "error: seed 2 is unlucky.",
    ]
    assert printed.out.count("failed (exit code 2)") == 2
    assert "All of them: patience=3" in printed.out
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_ends_in_a_table_of_its_settings(
    open_train: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    def task(config: TrainConfig, run: Run) -> int:
        (run.folder / "checkpoints").mkdir()
        return DONE

    assert open_train(task, "-m", "optimizer.lr=1e-3,1e-4", "hydra.sweep.dir=my sweep") == DONE
    table = capsys.readouterr().out
    for told in ("optimizer.lr=0.001", "optimizer.lr=0.0001", "not finished"):
        assert told in table
    assert table.rstrip().endswith("leakdet info 'my sweep' shows this table again")
    assert open_train(task, "optimizer.lr=1e-3", "hydra.run.dir=one") == DONE
    assert "shows this table" not in capsys.readouterr().out
