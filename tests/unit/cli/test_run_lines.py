"""The cards of what commands leave in runs/."""

import json
import shutil
from pathlib import Path

import pytest

from leakdet.cli.run_lines import (
    crossval_lines,
    evaluation_lines,
    run_lines,
    run_row,
    runs_lines,
    tune_lines,
)
from leakdet.errors import InputError

TABLE = {"n": 4, "positives": 2, "f1": 0.5, "intervals": {"f1": [0.1, 0.9]}}


@pytest.fixture
def stopped(trained, tmp_path: Path) -> Path:
    """A run that was stopped before its end."""
    folder = tmp_path / "stopped run"
    shutil.copytree(trained.folder, folder)
    (folder / "model.safetensors").unlink()
    return folder


def test_a_finished_run_has_its_command_and_its_model(trained) -> None:
    lines = list(run_lines(trained.folder))
    text = " ".join(part.strip() for part in lines)
    assert "command  leakdet train experiment=smoke logger=csv" in text
    assert "state    finished" in lines
    assert f"model {trained.model}" in " ".join(text.split())  # a long path is wrapped


def test_a_stopped_run_says_how_to_go_on(stopped: Path) -> None:
    text = " ".join(part.strip() for part in run_lines(stopped))
    assert (
        f"not finished, 3 epochs checked. If it runs no more, continue it: "
        f"leakdet train resume='{stopped}'" in text
    )
    shutil.rmtree(stopped / "checkpoints")
    assert "without a checkpoint" in " ".join(run_lines(stopped))


def test_a_learning_is_no_training_and_is_not_resumed(stopped: Path) -> None:
    given = stopped / ".hydra" / "overrides.yaml"
    given.write_text("- model=old.safetensors\n- learn.new=confirmed.csv\n")
    text = " ".join(part.strip() for part in run_lines(stopped))
    assert "leakdet learn model=old.safetensors learn.new=confirmed.csv" in text
    assert "repeat the command" in text
    assert "resume=" not in text


def test_few_warnings_are_shown(stopped: Path) -> None:
    (stopped / "warnings.txt").write_text("".join(f"odd {n}\n" for n in range(7)))
    text = "\n".join(run_lines(stopped))
    assert "warning  odd 0\n" in text
    assert "odd 5" not in text
    assert "and 2 more" in text


def test_runs_are_compared(trained, stopped: Path) -> None:
    name, given, score, verdict = run_row(trained.folder)
    assert (name, verdict) == ("run", "In doubt")
    assert given.startswith("experiment=smoke")
    assert score.endswith("] test")
    assert run_row(stopped)[2:] == ("", "not finished")
    text = "\n".join(runs_lines(stopped.parent, [trained.folder, stopped]))
    assert "runs     " in text
    assert "All of them: experiment=smoke" in text


def test_a_search(tmp_path: Path) -> None:
    (tmp_path / "trials" / "0000").mkdir(parents=True)
    assert "not finished, 1 trial begun" in " ".join(tune_lines(tmp_path))
    result = {
        "objective": "loss",
        "trials": {"complete": 3, "pruned": 1, "fail": 0},
        "best": {"trial": 2, "value": 0.25, "params": {"lr": 0.1}},
    }
    (tmp_path / "result.json").write_text(json.dumps(result))
    text = "\n".join(tune_lines(tmp_path))
    for told in ("3 complete, 1 pruned", "trial 2: loss 0.2500 on val", "lr=0.1", "not judged"):
        assert told in text
    (tmp_path / "result.json").write_text("[")
    with pytest.raises(InputError, match="not the result of a search"):
        list(tune_lines(tmp_path))


def test_a_cross_validation(tmp_path: Path) -> None:
    (tmp_path / "folds").mkdir()
    (tmp_path / "folds" / "a.json").touch()
    (tmp_path / "crossval.json").write_text(json.dumps({"settings": {"data": {"store": "s"}}}))
    text = " ".join(part.strip() for part in crossval_lines(tmp_path))
    assert "not finished, 1 fold done" in text
    assert f"crossval.out={tmp_path}" in text
    protocol = {"folds": [{}, {}], "recording": TABLE, "audit": {"findings": ["odd"]}}
    metrics = {
        "created_at": "2026-03-01T10:00:00+00:00",
        "created_by": "leakdet 0.1.0",
        "crossval": {"by-pipe": protocol},
    }
    (tmp_path / "metrics.json").write_text(json.dumps(metrics))
    text = "\n".join(crossval_lines(tmp_path))
    for told in ("2026-03-01 10:00 UTC", "by-pipe, 2 folds", "f1 0.50 [0.10, 0.90]", "odd"):
        assert told in text


def test_an_evaluation(tmp_path: Path) -> None:
    metrics = {
        "created_at": "2026-03-01T10:00:00+00:00",
        "created_by": "leakdet 0.1.0",
        "splits": ["test"],
        "test": {"recording": TABLE},
        "model": "m.safetensors",
    }
    (tmp_path / "metrics.json").write_text(json.dumps(metrics))
    text = "\n".join(evaluation_lines(tmp_path))
    for told in ("model    m.safetensors", "test     4 recordings, 2 with a leak: f1 0.50"):
        assert told in text
