"""Studies of scripted trainings, so that twenty trials take a second."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import lightning.pytorch as pl
import optuna
import pytest
import torch
from optuna.storages import InMemoryStorage

from leakdet.config import SearchParam, TrainConfig, TuneConfig, TuneSettings
from leakdet.training import log_names
from leakdet.tuning import study as study_module
from leakdet.tuning.objective import CheckReporter, Objective
from leakdet.tuning.study import open_storage, open_study
from leakdet.tuning.workers import Worker

SPACE = {
    "lr": SearchParam(setting="optimizer.lr", low=1e-4, high=1e-1, log=True),
    "dropout": SearchParam(setting="network.dropout", low=0.0, high=0.5, step=0.25),
}
Curve = Callable[[TrainConfig], Sequence[float]]
TrainFold = Callable[[Path, TrainConfig, Sequence[Any], int], None]


def validate(
    reporter: CheckReporter, f1: float, rank: float = 0.0, auroc: float = 0.5, sanity: bool = False
) -> None:
    """One validation check, as Lightning calls the reporter."""
    scores = {log_names.VAL_F1: f1, log_names.VAL_AUROC: auroc, log_names.VAL_RANK: rank}
    logged = {name: torch.tensor(score, dtype=torch.float64) for name, score in scores.items()}
    trainer = Mock(spec=pl.Trainer, sanity_checking=sanity, callback_metrics=logged)
    reporter.on_validation_end(trainer, Mock(spec=pl.LightningModule, current_epoch=0))


def scripted_training(curve: Curve) -> TrainFold:
    """A training with the checks `curve(config)`, each fold a hundredth above the one before."""

    def train(folder: Path, config: TrainConfig, callbacks: Sequence[Any], fold: int) -> None:
        (folder / log_names.CHECKPOINTS).mkdir(exist_ok=True)
        validate(callbacks[0], 0.123, sanity=True)
        for value in curve(config):
            validate(callbacks[0], value + fold / 100)

    return train


def rising_curve(config: TrainConfig) -> list[float]:
    """Five checks that rise to their best, which is highest at a learning rate of 1e-2."""
    top = 1.0 - abs(math.log10(config.optimizer.lr) + 2) / 4
    return [top * (step + 1) / 5 for step in range(5)]


@pytest.fixture(autouse=True)
def in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Studies live in memory, one for each folder, so that twenty trials take a second."""
    storages: defaultdict[str, InMemoryStorage] = defaultdict(InMemoryStorage)
    monkeypatch.setattr(study_module, "open_storage", lambda tune: storages[tune.folder])


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Studies live in a database, as they do for users."""
    monkeypatch.setattr(study_module, "open_storage", open_storage)


@pytest.fixture
def rising() -> Curve:
    return rising_curve


@pytest.fixture
def check() -> Callable[..., None]:
    return validate


@pytest.fixture
def scripted() -> Callable[[Curve], TrainFold]:
    return scripted_training


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

    def run(config: TuneConfig, curve: Curve = rising_curve) -> optuna.Study:
        study = open_study(config)
        train = scripted_training(curve)
        Worker(config, study, Objective(config, study, train, lambda _, note: f"# {note}\n")).work()
        return study

    return run
