"""What a sweep may vary, what is checked before it begins, and what is left of it."""

from pathlib import Path

import pytest

from leakdet.cli.sweeps import (
    Job,
    check_sweep,
    ended_elsewhere,
    jobs_to_check,
    remove_empty_sweep,
    sweep_text,
)
from leakdet.errors import SettingsError


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
