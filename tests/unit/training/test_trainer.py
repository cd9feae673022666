import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.accelerators import CPUAccelerator, CUDAAccelerator
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger

from leakdet.config import TrainConfig
from leakdet.core.errors import SettingsError
from leakdet.training import log_names
from leakdet.training.callbacks.diagnostics import kinds_in
from leakdet.training.trainer import (
    TRAINERS,
    log_scores,
    make_loggers,
    make_trainer,
    resume_logs,
    rows_before,
    suit_device,
)

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
    (first,) = make_loggers({"csv": {}}, tmp_path)
    for step in range(6):
        first.log_metrics({"loss": step / 10, "norm": 1.0}, step)
    first.save()
    with (tmp_path / log_names.STEPS).open("a") as file:
        file.write("0.6")  # killed while it wrote
    (second,) = make_loggers({"csv": {}}, tmp_path)
    with pytest.warns(UserWarning, match="exists and is not empty"):  # hidden by make_trainer
        resume_logs(Mock(spec=pl.Trainer, is_global_zero=True, loggers=[second]), 3)
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


def test_damaged_rows_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_bytes(b"step,x\n0,a\n\xff\x00,b\n1,c,d\n-,e\n1,f\n")
    assert [row["x"] for row in rows_before(path, 2)] == ["a", "f"]


Configured = Callable[..., TrainConfig]


def test_each_key_gives_its_logger_in_the_run_folder(tmp_path: Path) -> None:
    csv, board = make_loggers({"csv": {}, "tensorboard": None}, tmp_path)
    assert isinstance(csv, CSVLogger)
    assert isinstance(board, TensorBoardLogger)
    assert csv.log_dir == board.log_dir == str(tmp_path / "logs")


def test_an_unknown_logger_is_told_with_those_that_exist(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"logger\.cvs.*allowed are csv, tensorboard"):
        make_loggers({"cvs": {}}, tmp_path)


def test_a_logger_argument_that_does_not_exist_is_told(
    configured: Configured, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match=r"logger\.csv: .*nonesuch"):
        make_trainer(configured("logger=csv", "+logger.csv.nonesuch=1"), tmp_path)


def test_settings_stand_beside_the_scores_that_flatter_no_run(tmp_path: Path) -> None:
    """Undefined scores and Lightning's placeholder are not shown."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (board,) = make_loggers({"tensorboard": {}}, tmp_path)
    assert isinstance(board, TensorBoardLogger)
    table = {"auroc": 0.9, "f1": 0.8, "recall": None, "fpr": 0.1}
    table["intervals"] = {"auroc": [0.6, 0.97]}  # type: ignore[assignment]
    metrics = {"splits": ["val", "test"], "test": {"recording": table}}
    log_scores(board, {"optimizer": {"lr": 0.25}}, metrics)
    board.finalize("success")
    events = EventAccumulator(str(tmp_path / "logs"))
    events.Reload()
    scores = {name: events.Scalars(name)[0].value for name in events.Tags()["scalars"]}
    assert scores == {
        "results/test/auroc": pytest.approx(0.9),
        "results/test/f1": pytest.approx(0.8),
        "results/test/fpr": pytest.approx(0.1),
        "results/test/auroc_at_least": pytest.approx(0.6),
    }
    started = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    assert b"optimizer/lr" in started


CONF = Path(__file__).parents[3] / "conf"


@pytest.mark.parametrize(
    ("override", "what"),
    [
        pytest.param(
            "trainer=gpu",
            "gpu",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here"),
        ),
        ("+trainer.strategy=nonesuch", "nonesuch"),
        ("+trainer.nonesuch=3", "nonesuch"),
    ],
)
def test_a_trainer_that_cannot_be_is_told_with_the_ones_that_can(
    override: str, what: str, configured: Configured, tmp_path: Path
) -> None:
    with pytest.raises(
        SettingsError, match=rf"(?s)trainer: .*{what}.*trainer= one of cpu, gpu, ddp, debug"
    ):
        make_trainer(configured(override), tmp_path)


def test_the_trainers_that_are_named_are_those_that_ship() -> None:
    assert set(TRAINERS) == {path.stem for path in (CONF / "trainer").glob("*.yaml")}


@pytest.fixture
def precision() -> Iterator[Callable[[], str]]:
    before = torch.get_float32_matmul_precision()
    yield torch.get_float32_matmul_precision
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize(
    ("kind", "expected"), [(CPUAccelerator, "highest"), (CUDAAccelerator, "high")]
)
def test_tf32_on_an_accelerator_only(
    kind: Any, expected: str, precision: Callable[[], str]
) -> None:
    suit_device(Mock(spec=pl.Trainer, accelerator=kind()))
    assert precision() == expected
