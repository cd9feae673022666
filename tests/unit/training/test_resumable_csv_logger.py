"""The numbers of every step and the warnings of a run that was resumed: all of them, each once."""

import csv
from collections.abc import Callable
from pathlib import Path

import lightning.pytorch as pl
import pytest
from lightning.pytorch.callbacks import ModelCheckpoint

from leakdet.training import log_names
from leakdet.training.callbacks.findings import kinds_in
from leakdet.training.resumable_csv_logger import ResumableCSVLogger, resume_logs, rows_before

Fitted = Callable[..., pl.Trainer]
CSV = (
    "logger=csv",
    "trainer.log_every_n_steps=1",
    "loss_patience=0",
    "optimizer.lr=0",
)  # a rate of 0 is warned of


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / log_names.STEPS).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def steps(folder: Path, column: str) -> list[int]:
    """The steps that have a number in this column."""
    return [int(row["step"]) for row in rows(folder) if row[column]]


@pytest.mark.parametrize("place", ["1", "2"])
def test_the_curves_of_a_resumed_run_are_those_of_an_uninterrupted_one(
    place: str, fitted: Fitted, tmp_path: Path
) -> None:
    """In its own folder and in another one."""
    fitted(tmp_path / "whole", *CSV, "trainer.max_epochs=5")
    fitted(tmp_path / "1", *CSV, "trainer.max_epochs=4")
    fitted(tmp_path / place, *CSV, "trainer.max_epochs=5", f"resume={tmp_path / '1'}")
    for column in (log_names.GRADIENT_NORM, log_names.VAL_LOSS, log_names.WAIT_MEAN):
        assert steps(tmp_path / place, column) == steps(tmp_path / "whole", column)
    for folder in (tmp_path / "whole", tmp_path / place):
        kinds = kinds_in((folder / log_names.WARNINGS).read_text())
        # what the loader or the machine is told of depends on how busy this machine is
        assert [kind for kind in kinds if kind not in ("loader", "system")] == ["learning_rate"]


def test_rows_beyond_the_checkpoint_are_dropped_and_new_columns_added(tmp_path: Path) -> None:
    first = ResumableCSVLogger(tmp_path)
    for step in range(6):
        first.log_metrics({"loss": step / 10, "norm": 1.0}, step)
    first.save()
    with (tmp_path / log_names.STEPS).open("a") as file:
        file.write("0.6")  # killed while it wrote
    second = ResumableCSVLogger(tmp_path)
    resume_logs([second], 3)
    second.log_metrics({"loss": 0.9, "wait": 2.0}, 3)
    second.finalize("success")
    found = [(row["step"], row["loss"], row["norm"], row["wait"]) for row in rows(tmp_path)]
    assert found == [
        ("0", "0.0", "1.0", ""),
        ("1", "0.1", "1.0", ""),
        ("2", "0.2", "1.0", ""),
        ("3", "0.9", "", "2.0"),
    ]


def test_a_row_between_two_steps_is_kept_with_the_step_before_it(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text("step,x\n1,a\n2,of-a-callback\n1,check\n2,next-step\n")
    assert [row["x"] for row in rows_before(path, 2)] == ["a", "of-a-callback", "check"]
    assert rows_before(path, 1) == []


def test_a_checkpoint_writes_what_was_logged_before_it(tmp_path: Path) -> None:
    log = ResumableCSVLogger(tmp_path)
    log.log_metrics({"loss": 1.0}, 0)
    log.after_save_checkpoint(ModelCheckpoint())
    assert len(rows(tmp_path)) == 1


def test_damaged_rows_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_bytes(b"step,x\n0,a\n\xff\x00,b\n1,c,d\n-,e\n1,f\n")
    assert [row["x"] for row in rows_before(path, 2)] == ["a", "f"]
