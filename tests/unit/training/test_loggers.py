"""Loggers by name, with the arguments of Lightning's own."""

from collections.abc import Callable
from pathlib import Path

import pytest
from lightning.pytorch.loggers import TensorBoardLogger

from leakdet.config import TrainConfig
from leakdet.errors import SettingsError
from leakdet.training.loggers import make_loggers
from leakdet.training.resumable_csv_logger import ResumableCSVLogger
from leakdet.training.trainer import make_trainer

Configured = Callable[..., TrainConfig]


def test_each_key_gives_its_logger_in_the_run_folder(tmp_path: Path) -> None:
    csv, board = make_loggers({"csv": {}, "tensorboard": None}, tmp_path)
    assert isinstance(csv, ResumableCSVLogger)
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
