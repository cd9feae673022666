"""A transferred checkpoint and its best ones: their callbacks find them in the new folder."""

from pathlib import Path
from typing import Any

import pytest
import torch

from leakdet.training import log_names
from leakdet.training.checkpoint_io import read_checkpoint
from leakdet.training.checkpoint_transfer import copy_to, stored_score, transfer

MONITORS = (log_names.VAL_RANK, log_names.VAL_LOSS, None)


def checkpoint(rank: float | None, loss: float | None) -> dict[str, Any]:
    """What matters of a checkpoint: the states of the three callbacks that write it."""
    scores = {log_names.VAL_RANK: rank, log_names.VAL_LOSS: loss, None: None}
    states = {
        f"ModelCheckpoint{{{monitor}}}": {
            "monitor": monitor,
            "dirpath": "/elsewhere",
            "best_model_path": "/elsewhere/x.ckpt",
            "best_model_score": None if scores[monitor] is None else torch.tensor(scores[monitor]),
        }
        for monitor in MONITORS
    }
    other = {"F1Stop": {"monitor": log_names.VAL_RANK, "wait_count": 3}}
    return {"state_dict": {"w": torch.ones(1)}, "loops": {}, "callbacks": other | states}


def write(folder: Path, **checkpoints: dict[str, Any]) -> Path:
    folder.mkdir(parents=True)
    for name, content in checkpoints.items():
        torch.save(content, folder / f"{name}.ckpt")
    return folder / "last.ckpt"


def state_of(path: Path, monitor: str | None) -> dict[str, Any]:
    state: dict[str, Any] = read_checkpoint(path)["callbacks"][f"ModelCheckpoint{{{monitor}}}"]
    return state


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run whose best files were written after the last checkpoint: they have better scores."""
    last = write(
        tmp_path / "old" / "checkpoints",
        last=checkpoint(0.5, 0.7),
        best_f1=checkpoint(0.8, 0.7),
        best_loss=checkpoint(0.5, 0.6),
    )
    (tmp_path / "old" / "warnings.txt").write_text("epoch 1, gpu: idle\n")
    (tmp_path / "old" / "logs").mkdir()
    (tmp_path / "old" / "logs" / "metrics.csv").write_text("step\n0\n")
    return last


def test_the_files_of_the_run_come_along(run: Path, tmp_path: Path) -> None:
    last = transfer(run, tmp_path / "new" / "checkpoints")
    assert last == tmp_path / "new" / "checkpoints" / "last.ckpt"
    files = [path for path in (tmp_path / "new").rglob("*") if path.is_file()]
    assert sorted(path.name for path in files) == [
        "best_f1.ckpt",
        "best_loss.ckpt",
        "last.ckpt",
        "metrics.csv",
        "warnings.txt",
    ]
    assert state_of(last, None)["best_model_path"] == str(last)


@pytest.mark.parametrize("place", ["old", "new"])
def test_a_best_that_is_newer_than_last_keeps_its_own_score(
    place: str, run: Path, tmp_path: Path
) -> None:
    """In its own folder and in another one."""
    folder = tmp_path / place / "checkpoints"
    last = transfer(run, folder)
    for name, monitor, score in (
        ("best_f1", log_names.VAL_RANK, 0.8),
        ("best_loss", log_names.VAL_LOSS, 0.6),
    ):
        state = state_of(last, monitor)
        assert float(state["best_model_score"]) == pytest.approx(score)
        assert state["best_model_path"] == str(folder / f"{name}.ckpt")
        assert state["dirpath"] == str(folder)
        assert list(state["best_k_models"]) == [state["kth_best_model_path"]]


def test_an_older_best_file_does_not_lower_the_score(tmp_path: Path) -> None:
    last = write(tmp_path / "run", last=checkpoint(0.9, 0.2), best_f1=checkpoint(0.4, 0.3))
    state = state_of(transfer(last, tmp_path / "run"), log_names.VAL_RANK)
    assert float(state["best_model_score"]) == pytest.approx(0.9)


@pytest.mark.parametrize("damaged", [False, True])
def test_a_best_without_its_file_is_forgotten(damaged: bool, tmp_path: Path) -> None:
    last = write(tmp_path / "run", last=checkpoint(0.9, 0.2))
    if damaged:
        (tmp_path / "run" / "best_f1.ckpt").write_bytes(b"half")
    last = transfer(last, tmp_path / "run")
    assert state_of(last, log_names.VAL_RANK)["best_model_score"] is None
    assert float(state_of(last, log_names.VAL_RANK)["kth_value"]) == float("-inf")
    assert float(state_of(last, log_names.VAL_LOSS)["kth_value"]) == float("inf")


def test_the_score_of_a_file_is_its_own(run: Path) -> None:
    score = stored_score(run.with_name("best_loss.ckpt"), log_names.BEST_LOSS)
    assert score is not None
    assert float(score) == pytest.approx(0.6)
    assert stored_score(run.with_name("none.ckpt"), log_names.BEST_LOSS) is None


def test_a_file_is_not_copied_onto_itself(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    assert copy_to(tmp_path / "a", tmp_path / "a").read_text() == "x"
    assert copy_to(tmp_path / "b" / "c", tmp_path / "a").read_text() == "x"
    assert not copy_to(tmp_path / "d", tmp_path / "missing").exists()
