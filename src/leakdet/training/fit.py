"""Putting a run together: callbacks, loggers, trainer; and fitting until it stops."""

import logging
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.accelerators import CPUAccelerator
from lightning.pytorch.callbacks import (
    Callback,
    EarlyStopping,
    LearningRateMonitor,
    ModelCheckpoint,
)
from lightning.pytorch.loggers import Logger, TensorBoardLogger

from leakdet.config import TrainConfig
from leakdet.errors import LeakdetError, SettingsError
from leakdet.training import log_names as names
from leakdet.training.callbacks.averaging import averaging
from leakdet.training.callbacks.collapse import Collapse
from leakdet.training.callbacks.early_stopping import F1Stop, LossStop
from leakdet.training.callbacks.findings import Findings
from leakdet.training.callbacks.first_batch import FirstBatch
from leakdet.training.callbacks.gc_freeze import GarbageSearch
from leakdet.training.callbacks.gradients import GradientMonitor
from leakdet.training.callbacks.history import History
from leakdet.training.callbacks.interruption import Interrupted, Interruption
from leakdet.training.callbacks.loader_wait import LoaderWait
from leakdet.training.callbacks.overfit import Overfit
from leakdet.training.callbacks.progress import EpochTable
from leakdet.training.callbacks.rate_watch import RateWatch
from leakdet.training.callbacks.system_use import SystemUse
from leakdet.training.checkpoint_io import AtomicCheckpointIO, read_checkpoint
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.distributed import together
from leakdet.training.interference_bank import interference_bank
from leakdet.training.lr_batch_finder import found_settings
from leakdet.training.malloc import keep_freed_memory
from leakdet.training.module import LeakModule
from leakdet.training.resumable_csv_logger import StepLog, go_on
from leakdet.training.resume import starting_checkpoint
from leakdet.training.resume_compatibility import as_found
from leakdet.training.settings_conflicts import check_settings
from leakdet.training.warm_start import inherit_best, initialise

LOGGERS = ("csv", "tensorboard", "wandb", "mlflow")
TRAINERS = ("cpu", "gpu", "ddp", "debug")  # files of conf/trainer


def fit(
    config: TrainConfig, data: LeakDataModule, run_folder: Path, extra: Sequence[Callback] = ()
) -> pl.Trainer:
    """Train until a stop; checkpoints and logs are under `run_folder`. `extra` callbacks come after our own.

    Raises:
        SettingsError: settings that contradict each other, a logger or trainer flag that does not exist.
        InputError: `resume` or `init_from` names nothing that can be used.
        LeakdetError: the loss became NaN or infinite.
        Interrupted: a signal asked it to stop; the checkpoint is written.
    """
    check_settings(config)
    _quieten_lightning()
    run_folder.mkdir(parents=True, exist_ok=True)
    pl.seed_everything(config.seed, workers=True, verbose=False)
    started = starting_checkpoint(config, data, run_folder)
    if started is not None:
        checkpoint = read_checkpoint(started)
        config = as_found(config, checkpoint)
        data.resumed_at = checkpoint["loops"]["fit_loop"]["state_dict"]["combined_loader"][0]
        data.config = config
    interruption = Interruption(run_folder / names.CHECKPOINTS / f"{names.LAST}.ckpt")
    trainer = make_trainer(config, run_folder, [*extra, interruption])
    if started is not None:
        go_on(trainer.loggers, int(checkpoint["global_step"]))
    if config.threads:
        torch.set_num_threads(config.threads)
    module = LeakModule(config, data)
    prepare(module, config, data)
    if started is None and (config.find_lr or config.find_batch_size):
        config = found_settings(config, module, data, run_folder, trainer)
        # how long they looked must not tell
        pl.seed_everything(config.seed, workers=True, verbose=False)
        module = LeakModule(config, data)
        prepare(module, config, data)
    if "best_score" in module.inherited:
        inherit_best(trainer.callbacks, Path(str(config.init_from)), run_folder / names.CHECKPOINTS)  # type: ignore[attr-defined]
    if config.compile:
        module.network.compile()  # in place: checkpoint keys stay as they are
    with interruption.listening(), together(trainer, interruption.checkpoint):
        trainer.fit(module, datamodule=data, ckpt_path=started, weights_only=True)
    if (
        interruption.received
    ):  # during the last validation check: the training is whole, what follows it is not wanted now
        raise Interrupted(interruption.received, interruption.checkpoint)
    _check_trained(trainer)
    return trainer


def prepare(module: LeakModule, config: TrainConfig, data: LeakDataModule) -> None:
    """What a network needs before its first step: its input layer's statistics, a start, and sounds to mix in."""
    if config.init_from is not None:
        module.inherited = initialise(module.network, data, Path(config.init_from), config)
    elif config.network.standardise:
        module.network.input.fit(data.standardisation_batches())
    if config.augment.interference is not None:
        module.interference = interference_bank(config, data)


def _quieten_lightning() -> None:
    """Lightning's advice on devices and other products says nothing about the run; its warnings stay."""
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    # resuming
    warnings.filterwarnings("ignore", message=r"Checkpoint directory .* exists and is not empty")
    warnings.filterwarnings("ignore", message=r"`isinstance\(treespec, LeafSpec\)` is deprecated")
    # what is logged on several processes is already of all of them
    warnings.filterwarnings(
        "ignore", message=r"It is recommended to use `self\.log\(.*sync_dist=True\)`"
    )
    warnings.filterwarnings(
        "ignore", message=r"torch\.distributed\.nn\.functional\.all_gather is deprecated"
    )


def make_trainer(
    config: TrainConfig, run_folder: Path, extra: Sequence[Callback] = ()
) -> pl.Trainer:
    loggers = make_loggers(config.logger, run_folder)
    callbacks = [*make_callbacks(config, run_folder), *extra]
    try:
        trainer = pl.Trainer(
            default_root_dir=run_folder,
            logger=loggers,
            callbacks=callbacks,
            plugins=[AtomicCheckpointIO()],
            # our loaders shard by rank themselves: exactly once, no padding
            use_distributed_sampler=False,
            **config.trainer,
        )
    except (TypeError, ValueError, MisconfigurationException) as error:
        # a misspelt name; a value that is not allowed; what this machine lacks
        raise SettingsError(
            f"trainer: {str(error).rstrip('.!')}. Allowed are the arguments of lightning.Trainer, with values that this "
            f"machine can serve; trainer= one of {', '.join(TRAINERS)} sets them together, and cpu runs everywhere."
        ) from error
    suit_device(trainer)
    return trainer


def suit_device(trainer: "pl.Trainer") -> None:
    """On an accelerator, what stays float32 under mixed precision is multiplied as TF32; a CPU keeps its float32, and the
    process the memory of its tensors.
    """
    # TF32 has the exponents of float32 and the mantissa of float16, which is what the stores hold.
    if not isinstance(trainer.accelerator, CPUAccelerator):
        torch.set_float32_matmul_precision("high")
    else:
        keep_freed_memory()


def make_callbacks(config: TrainConfig, run_folder: Path) -> list[Callback]:
    findings = Findings(run_folder)
    stop = F1Stop(
        names.VAL_RANK, patience=config.patience, mode="max", check_finite=True, strict=True
    )
    loss_stop = [LossStop(config.loss_patience)] if config.loss_patience else []
    rates = [LearningRateMonitor("step")] if config.logger else []
    shown = [EpochTable()] if config.trainer.get("enable_progress_bar", True) else []
    diagnoses: list[Callback] = [
        findings,
        LoaderWait(findings),  # before what works at a batch's start: that is no waiting
        FirstBatch(findings),
        GradientMonitor(findings),
        RateWatch(findings),
        Collapse(findings),
        Overfit(findings),
        SystemUse(findings),
    ]
    return [
        GarbageSearch(),
        stop,
        *loss_stop,
        *averaging(config),
        *rates,
        *diagnoses,
        History(run_folder),
        *checkpoints(run_folder / names.CHECKPOINTS),
        *shown,
    ]


def checkpoints(folder: Path) -> list[Callback]:
    """Best F1, best loss and last. The last is written after the others, so that it knows of both.

    `save_last` of the best-F1 callback would not do: it writes only when there is a new best.
    """
    common: dict[str, Any] = {"auto_insert_metric_name": False, "enable_version_counter": False}
    return [
        ModelCheckpoint(folder, names.BEST_F1, monitor=names.VAL_RANK, mode="max", **common),
        ModelCheckpoint(folder, names.BEST_LOSS, monitor=names.VAL_LOSS, mode="min", **common),
        ModelCheckpoint(folder, names.LAST, monitor=None, **common),
    ]


def make_loggers(settings: Mapping[str, Any], run_folder: Path) -> list[Logger]:
    made = []
    for name, arguments in settings.items():
        try:
            made.append(_logger(name, dict(arguments or {}), run_folder))
        except TypeError as error:
            raise SettingsError(
                f"logger.{name}: {error}. Allowed are the arguments of Lightning's logger."
            ) from error
    return made


def _logger(name: str, arguments: dict[str, Any], run_folder: Path) -> Logger:
    match name:
        case "csv":
            return StepLog(run_folder, **arguments)
        case "tensorboard":
            return TensorBoardLogger(run_folder, name="", version=names.LOGS, **arguments)
        case "wandb" | "mlflow":
            return _foreign_logger(name, arguments, run_folder)
    raise SettingsError(
        f"logger.{name}: there is no such logger; allowed are {', '.join(LOGGERS)}."
    )


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
