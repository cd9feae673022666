"""Studies of trainings that follow a script, so that twenty trials take a second."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import lightning.pytorch as pl
import optuna
import pytest

from leakdet.config import SearchParam, TrainConfig, TuneConfig, TuneSettings
from leakdet.training import log_names
from leakdet.tuning.objective import Objective
from leakdet.tuning.pruning_callback import CheckReporter
from leakdet.tuning.study import open_study
from leakdet.tuning.worker import Worker

SPACE = {
    "lr": SearchParam(setting="optimizer.lr", low=1e-4, high=1e-1, log=True),
    "dropout": SearchParam(setting="network.dropout", low=0.0, high=0.5, step=0.25),
}


def check(
    reporter: CheckReporter, f1: float, rank: float = 0.0, auroc: float = 0.5, sanity: bool = False
) -> None:
    """One validation check as Lightning would announce it."""
    found = {log_names.VAL_F1: f1, log_names.VAL_AUROC: auroc, log_names.VAL_RANK: rank}
    trainer = Mock(spec=pl.Trainer, sanity_checking=sanity, callback_metrics=found)
    reporter.on_validation_end(trainer, Mock(spec=pl.LightningModule))


def scripted(
    curve: Callable[[TrainConfig], Sequence[float]],
) -> Callable[[Path, TrainConfig, Sequence[Any], int], None]:
    """A training whose checks are `curve(config)`, on each fold a hundredth higher than on the one before."""

    def train(folder: Path, config: TrainConfig, extra: Sequence[Any], fold: int) -> None:
        (folder / log_names.CHECKPOINTS).mkdir(exist_ok=True)
        check(extra[0], 0.123, sanity=True)
        for value in curve(config):
            check(extra[0], value + fold / 100)

    return train


def by_lr(config: TrainConfig) -> list[float]:
    """Best at 1e-2; five checks that rise to it."""
    top = 1.0 - abs(math.log10(config.optimizer.lr) + 2) / 4
    return [top * (step + 1) / 5 for step in range(5)]


@pytest.fixture
def rising() -> Callable[[TrainConfig], list[float]]:
    return by_lr


@pytest.fixture
def announce() -> Callable[..., None]:
    return check


@pytest.fixture
def settings(tmp_path: Path) -> Callable[..., TuneConfig]:
    def make(**tune: Any) -> TuneConfig:
        search = tune.pop("search", SPACE)
        return TuneConfig(
            tune=TuneSettings(**{"folder": str(tmp_path / "study"), **tune}), search=search
        )

    return make


@pytest.fixture
def tuned() -> Callable[..., optuna.Study]:
    """Open the study of a configuration, work at it until it is full, and return it."""

    def run(
        config: TuneConfig, curve: Callable[[TrainConfig], Sequence[float]] = by_lr
    ) -> optuna.Study:
        study = open_study(config)
        Worker(
            config, study, Objective(config, study, scripted(curve), lambda _, note: f"# {note}\n")
        ).work()
        return study

    return run
