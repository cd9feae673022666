"""Putting a run together: callbacks, loggers, trainer; and fitting until it stops."""

import logging
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping, LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger

from leakdet.config import TrainConfig
from leakdet.detection.losses import balance_levers
from leakdet.errors import LeakdetError, SettingsError
from leakdet.training import names
from leakdet.training.callbacks.progress import EpochTable
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.module import LeakModule

LOGGERS = ("csv", "tensorboard", "wandb", "mlflow")


def fit(
    config: TrainConfig, data: LeakDataModule, run_folder: Path, extra: Sequence[Callback] = ()
) -> pl.Trainer:
    """Train until a stop; checkpoints and logs are under `run_folder`. `extra` callbacks come after our own.

    Raises:
        SettingsError: several levers of class balance, a logger or trainer flag that does not exist.
        LeakdetError: the loss became NaN or infinite.
    """
    check_balance(config)
    _quieten_lightning()
    pl.seed_everything(config.seed, workers=True, verbose=False)
    if config.threads:
        torch.set_num_threads(config.threads)
    trainer = make_trainer(config, run_folder, extra)
    module = LeakModule(config, data)
    if config.network.standardise:
        module.network.input.fit(data.standardisation_batches())
    if config.compile:
        module.network.compile()  # in place: checkpoint keys stay as they are
    trainer.fit(module, datamodule=data)
    _check_trained(trainer)
    return trainer


def _quieten_lightning() -> None:
    """Lightning's advice on devices and other products says nothing about the run; its warnings stay."""
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=r"`isinstance\(treespec, LeafSpec\)` is deprecated")


def check_balance(config: TrainConfig) -> None:
    levers = balance_levers(config.loss, config.data.sampling)
    if len(levers) > 1 and not config.loss.allow_several_balances:
        raise SettingsError(
            f"{' and '.join(levers)} each shift the class balance, and together they multiply. "
            "Keep one of them, or say loss.allow_several_balances=true."
        )


def make_trainer(config: TrainConfig, run_folder: Path, extra: Sequence[Callback] = ()) -> pl.Trainer:
    try:
        return pl.Trainer(
            default_root_dir=run_folder,
            logger=make_loggers(config.logger, run_folder),
            callbacks=[*make_callbacks(config, run_folder), *extra],
            use_distributed_sampler=False,  # our loaders shard by rank themselves: exactly once, no padding
            **config.trainer,
        )
    except TypeError as error:
        raise SettingsError(f"trainer: {error}. Allowed are the arguments of lightning.Trainer.") from error


def make_callbacks(config: TrainConfig, run_folder: Path) -> list[Callback]:
    folder = run_folder / names.CHECKPOINTS
    best_f1 = ModelCheckpoint(
        folder, names.BEST_F1, monitor=names.VAL_F1, mode="max", save_last=True, auto_insert_metric_name=False
    )
    best_loss = ModelCheckpoint(
        folder, names.BEST_LOSS, monitor=names.VAL_LOSS, mode="min", auto_insert_metric_name=False
    )
    stop = EarlyStopping(names.VAL_F1, patience=config.patience, mode="max", check_finite=True, strict=True)
    shown = [EpochTable()] if config.trainer.get("enable_progress_bar", True) else []
    rates = [LearningRateMonitor("step")] if config.logger else []
    return [best_f1, best_loss, stop, *rates, *shown]


def make_loggers(settings: Mapping[str, Any], run_folder: Path) -> list[Logger]:
    return [_logger(name, dict(arguments or {}), run_folder) for name, arguments in settings.items()]


def _logger(name: str, arguments: dict[str, Any], run_folder: Path) -> Logger:
    match name:
        case "csv":
            return CSVLogger(run_folder, name="", version="logs", **arguments)
        case "tensorboard":
            return TensorBoardLogger(run_folder, name="", version="logs", **arguments)
        case "wandb" | "mlflow":
            return _foreign_logger(name, arguments, run_folder)
    raise SettingsError(f"logger.{name}: there is no such logger; allowed are {', '.join(LOGGERS)}.")


def _foreign_logger(name: str, arguments: dict[str, Any], run_folder: Path) -> Logger:
    """Loggers whose packages leakdet does not install; both write into the run folder and stay off the network."""
    from lightning.pytorch.loggers import MLFlowLogger, WandbLogger

    try:
        if name == "wandb":
            return WandbLogger(save_dir=run_folder, **{"offline": True, **arguments})
        return MLFlowLogger(**{"tracking_uri": (run_folder / "mlruns").as_uri(), **arguments})
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"logger={name} needs a package that is not installed: pip install {name}."
        ) from error


def _check_trained(trainer: pl.Trainer) -> None:
    """Lightning returns normally from a run that did nothing or met NaN; a user must not take that for success."""
    if trainer.global_step == 0:
        raise LeakdetError(
            "Training ended without one optimiser step; see trainer.max_epochs and trainer.limit_train_batches."
        )
    stopper = trainer.early_stopping_callback
    if isinstance(stopper, EarlyStopping) and "finite" in (stopper.stopping_reason_message or ""):
        raise LeakdetError(
            f"Training stopped in epoch {trainer.current_epoch + 1}: {stopper.stopping_reason_message} "
            "Lower optimizer.lr or set trainer.gradient_clip_val."
        )


def best_checkpoint(trainer: pl.Trainer) -> Path:
    """The checkpoint of the best recording F1. Raises `LeakdetError` where no validation check was reached."""
    path = (
        trainer.checkpoint_callback.best_model_path
        if isinstance(trainer.checkpoint_callback, ModelCheckpoint)
        else ""
    )
    if not path:
        raise LeakdetError(
            "No validation check was reached, so there is no best model; raise trainer.max_epochs or max_steps."
        )
    return Path(path)
