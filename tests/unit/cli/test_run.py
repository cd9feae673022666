import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.global_hydra import GlobalHydra

from leakdet.cli import run as hydra_door
from leakdet.cli.run import (
    Job,
    Run,
    check_sweep,
    ended_elsewhere,
    jobs_to_check,
    open_door,
    remove_empty_sweep,
    sweep_text,
)
from leakdet.config import TrainConfig
from leakdet.core.errors import InputError, SettingsError
from leakdet.core.files import claimed
from leakdet.core.messages import LOG
from leakdet.core.process import DONE, PARTLY, WRONG


@pytest.mark.parametrize(
    ("door", "sweep", "advice"),
    [
        ("tune", "optimizer.weight_decay=.1,.01", "Search this setting"),
        ("tune", "search=small,default", "its own tune.study"),
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


def test_each_value_of_a_sweep_is_checked_once() -> None:
    words = ["-m", "seed=1,2,3", "data.store='a b'", "network=linear,paper"]
    fixed = "data.store='a b'"
    assert list(jobs_to_check(words)) == [
        ["seed=1", fixed, "network=linear"],
        ["seed=2", fixed, "network=linear"],
        ["seed=3", fixed, "network=linear"],
        ["seed=1", fixed, "network=paper"],
    ]
    assert list(jobs_to_check(["-m", "seed=range(2)"])) == [["seed=0"], ["seed=1"]]
    assert list(jobs_to_check(["-m", "seed=1"])) == [["seed=1"]]


@pytest.mark.parametrize(
    "words",
    [
        ["-m", "optimizer.lr=interval(0,1)", "seed=1,2"],
        ["-m", "hydra/sweeper=optuna", "seed=1,2"],
    ],
)
def test_jobs_that_another_sweeper_makes_are_not_guessed(words: list[str]) -> None:
    assert list(jobs_to_check(words)) == []


def test_only_a_sweep_without_results_is_removed(tmp_path: Path) -> None:
    sweep = tmp_path / "kept" / "runs" / "train" / "today"
    jobs = [Job(sweep / name, sweep, [], 2) for name in ("0", "1")]
    (sweep / "0").mkdir(parents=True)
    (sweep / "1" / "checkpoints").mkdir(parents=True)
    (sweep / "multirun.yaml").touch()
    remove_empty_sweep(jobs)
    assert sorted(path.name for path in sweep.iterdir()) == ["1", "multirun.yaml"]
    (sweep / "1" / "checkpoints").rmdir()
    (tmp_path / "kept" / "notes").touch()
    remove_empty_sweep(jobs)
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["notes"]


def test_jobs_that_share_the_sweeps_folder_leave_none(tmp_path: Path) -> None:
    sweep = tmp_path / "runs" / "crossval" / "today"
    (sweep / ".hydra").mkdir(parents=True)
    (sweep / "multirun.yaml").touch()
    (tmp_path / "notes").touch()
    remove_empty_sweep([Job(sweep, sweep, [], 2)])
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def test_a_job_without_a_folder_is_told_as_failed(tmp_path: Path) -> None:
    jobs = [Job(tmp_path / str(seed), tmp_path, ["seed=1", "x=y"], 2) for seed in (0, 1)]
    text = sweep_text(jobs)
    assert text.count("failed (exit code 2)") == 2
    assert text.splitlines()[-2:] == [
        "All of them: seed=1 x=y",
        f"leakdet info {tmp_path} shows this table again",
    ]


def test_jobs_of_other_processes_are_found_by_their_folders(tmp_path: Path) -> None:
    for number in (10, 2):
        notes = tmp_path / str(number) / ".hydra" / "overrides.yaml"
        notes.parent.mkdir(parents=True)
        notes.write_text(f"- seed={number}\n")
    (tmp_path / ".submitit").mkdir()
    jobs = ended_elsewhere(tmp_path)
    assert [(job.folder.name, job.given) for job in jobs] == [
        ("2", ["seed=2"]),
        ("10", ["seed=10"]),
    ]
    assert "seed=10" in sweep_text(jobs)


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


def test_a_setting_that_is_given_twice_is_said(
    open_train: Open, caplog: pytest.LogCaptureFixture
) -> None:
    calls: Calls = []
    words = ("seed=1", "threads=1", "seed=2")
    with caplog.at_level("INFO"):
        assert open_train(lambda *call: calls.append(call) or DONE, *words) == DONE
    assert calls[0][0].seed == 2
    assert [text for text in caplog.messages if "note" in text] == [
        "note     seed=1 does not count: seed=2 follows it"
    ]


def test_no_signature_of_a_url_stays_in_the_settings_of_a_run(
    open_train: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hydra_door, "_settings", lambda *_: None)
    url = "https://h/store?X-Amz-Signature=5e&X-Amz-Expires=9"
    calls: Calls = []
    assert open_train(lambda *call: calls.append(call) or DONE, f"data.store={url}") == DONE
    ((_, run),) = calls
    notes = [path.read_text() for path in (run.folder / ".hydra").iterdir()]
    assert len(notes) == 3
    assert sum("https://h/store" in note for note in notes) >= 2
    assert not any("Amz" in note for note in notes)


def test_the_settings_of_a_run_are_composed_once(
    open_train: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = ConfigLoaderImpl.load_configuration
    loaded = Mock(side_effect=load)
    monkeypatch.setattr(ConfigLoaderImpl, "load_configuration", lambda *a, **k: loaded(*a, **k))
    assert open_train(lambda *_: DONE, "seed=7") == DONE
    assert loaded.call_count == 1


def test_hydras_callbacks_and_environment_reach_a_single_run(
    open_train: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `hydra.main` does for a run: callbacks, variables, its notes in .hydra."""
    seen = []
    monkeypatch.setattr(hydra_door, "SEEN", seen, raising=False)
    (tmp_path / "watching.py").write_text(
        "from hydra.experimental.callback import Callback\n"
        "from leakdet.cli import run\n"
        "class Watch(Callback):\n"
        "    def on_run_start(self, config, **_): run.SEEN.append('run start')\n"
        "    def on_job_start(self, config, **_): run.SEEN.append('job start')\n"
        "    def on_job_end(self, config, job_return, **_): run.SEEN.append(job_return.return_value)\n"
        "    def on_run_end(self, config, **_): run.SEEN.append('run end')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def task(config: TrainConfig, run: Run) -> int:
        seen.append(os.environ["PIPE"])
        return PARTLY

    words = ("+hydra.callbacks.watch._target_=watching.Watch", "+hydra.job.env_set.PIPE=north")
    assert open_train(task, "seed=7", "hydra.run.dir=mine", *words) == PARTLY
    assert seen == ["run start", "job start", "north", PARTLY, "run end"]
    assert "PIPE" not in os.environ
    notes = tmp_path / "mine" / ".hydra"
    assert sorted(path.name for path in notes.iterdir()) == [
        "config.yaml",
        "hydra.yaml",
        "overrides.yaml",
    ]
    assert (notes / "overrides.yaml").read_text() == "- seed=7\n"


def test_a_sweep_may_be_asked_for_by_hydras_mode(open_train: Open) -> None:
    calls: Calls = []
    words = ("hydra.mode=MULTIRUN", "seed=1,2", "hydra.sweep.dir=sweep")
    assert open_train(lambda *call: calls.append(call) or DONE, *words) == DONE
    assert [config.seed for config, _ in calls] == [1, 2]


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
    assert "mine: another run" in capsys.readouterr().err


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
        ("experiment=none.yaml", "error: experiment=none.yaml: "),
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
    assert open_train(lambda *_: PARTLY, "-m", "seed=1", "hydra.sweep.dir=.") == WRONG
    assert len(followed) == 1
    assert "exit code 1" in capsys.readouterr().err


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
    assert "sweep/1: " in capsys.readouterr().err
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
    assert "leakdet info 'my sweep'" in table.splitlines()[-1]
    assert open_train(task, "optimizer.lr=1e-3", "hydra.run.dir=one") == DONE
    assert "leakdet info" not in capsys.readouterr().out
