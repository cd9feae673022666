"""Loggers by name, with the arguments of Lightning's own."""

from collections.abc import Callable
from pathlib import Path

import pytest
from lightning.pytorch.loggers import TensorBoardLogger

from leakdet.config import TrainConfig
from leakdet.errors import SettingsError
from leakdet.training.loggers import log_scores, make_loggers
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
