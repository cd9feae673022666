"""Lightning's trainer as the settings ask for it, with this run's callbacks and loggers."""

import csv
import logging
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.fabric.plugins.environments.lightning import LightningEnvironment
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.accelerators import CPUAccelerator
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger
from lightning.pytorch.profilers import Profiler

from leakdet.config import TrainConfig, TrainerFlags
from leakdet.config.train import LOGGERS
from leakdet.core.errors import SettingsError
from leakdet.core.messages import logs_json
from leakdet.training import log_names
from leakdet.training.callbacks.built_in import make_callbacks
from leakdet.training.checkpoints import AtomicCheckpointIO
from leakdet.training.memory import keep_freed_memory
from leakdet.training.profiling import PROFILE, TRACE, NvtxRanges, OperatorTrace, PhaseProfiler


def resume_logs(trainer: "pl.Trainer", step: int) -> None:
    """Give Lightning's CSV logger the rows before the optimiser step from which a run resumes.

    It deletes the file that it finds, so these rows are written anew at once.
    """
    for logger in trainer.loggers if trainer.is_global_zero else ():
        if isinstance(logger, CSVLogger):
            path = Path(logger.log_dir) / Path(log_names.STEPS).name
            rows = rows_before(path, step) if path.is_file() else []
            logger.experiment.metrics += rows
            logger.save()


def rows_before(path: Path, step: int) -> list[dict[str, Any]]:
    """The rows up to the last one of an earlier step, without those that are cut off or damaged.

    A row is numbered by the steps done before its own, but one that a callback wrote between two
    steps by all that were done: it is kept only if a row of an earlier step follows.
    """
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        lines = (line.replace("\0", "") for line in file)
        rows = [
            row for row in csv.DictReader(lines) if None not in row and None not in row.values()
        ]
    rows = [row for row in rows if row.get("step", "").isdecimal()]
    earlier = [index for index, row in enumerate(rows) if int(row["step"]) < step]
    return rows[: earlier[-1] + 1] if earlier else []


SCORES = ("auroc", "f1", "recall", "fpr")  # of recordings, under HPARAMS


def make_loggers(settings: Mapping[str, Any], run_folder: Path) -> list[Logger]:
    """A logger per key of `settings`, whose value holds the logger's own arguments."""
    loggers = []
    for name, arguments in settings.items():
        try:
            loggers.append(_logger(name, dict(arguments or {}), run_folder))
        except TypeError as error:
            raise SettingsError(
                f"logger.{name}: {error}. Allowed are the arguments of Lightning's logger."
            ) from error
    return loggers


def _logger(name: str, arguments: dict[str, Any], run_folder: Path) -> Logger:
    match name:
        case "csv":
            return CSVLogger(run_folder, name="", version=log_names.LOGS, **arguments)
        case "tensorboard":
            # without its placeholder -1 in HPARAMS, where `log_scores` writes scores
            arguments = {"default_hp_metric": False, **arguments}
            return TensorBoardLogger(run_folder, name="", version=log_names.LOGS, **arguments)
        case "wandb" | "mlflow":
            return _foreign_logger(name, arguments, run_folder)
    raise SettingsError(
        f"logger.{name}: there is no such logger; allowed are {', '.join(LOGGERS)}."
    )


def log_scores(
    logger: TensorBoardLogger, settings: Mapping[str, Any], metrics: Mapping[str, Any]
) -> None:
    """Show a run's settings with its scores on the last split under HPARAMS of TensorBoard.

    `auroc_at_least`, the lower end of the AUROC's 95 % interval, is the one to sort runs by: it
    flatters none that was scored on few recordings.
    """
    split = metrics["splits"][-1]
    table = metrics[split]["recording"]
    scores = {f"{split}/{name}": table[name] for name in SCORES}
    interval = table["intervals"]["auroc"]
    scores[f"{split}/auroc_at_least"] = interval[0] if interval else None
    known = {f"{log_names.RESULTS}{name}": v for name, v in scores.items() if v is not None}
    logger.log_hyperparams(dict(settings), known)


def _foreign_logger(name: str, arguments: dict[str, Any], run_folder: Path) -> Logger:
    """Loggers whose packages leakdet does not install; by default they stay off the network."""
    from lightning.pytorch.loggers import MLFlowLogger, WandbLogger

    try:
        if name == "wandb":
            return WandbLogger(save_dir=run_folder, **{"offline": True, **arguments})
        return MLFlowLogger(**{"tracking_uri": (run_folder / "mlruns").as_uri(), **arguments})
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"logger={name} needs a package that is not installed: pip install {name}."
        ) from error


TRAINERS = ("cpu", "gpu", "ddp", "debug")  # files of conf/trainer


def make_trainer(
    config: TrainConfig, run_folder: Path, extra: Sequence[Callback] = ()
) -> pl.Trainer:
    """A trainer that writes under `run_folder`; `extra` callbacks come after all others."""
    _silence_lightning()
    loggers = make_loggers(config.logger, run_folder)
    callbacks = [*make_callbacks(config, run_folder), *extra]
    alone = [LightningEnvironment()] if TrainerFlags.of(config.trainer).one_device else []
    for environment in alone:
        environment.set_global_rank(0)  # Lightning read another one as it was imported
    try:
        trainer = pl.Trainer(
            default_root_dir=run_folder,
            logger=loggers,
            callbacks=callbacks,
            plugins=[AtomicCheckpointIO(), *alone],
            # our loaders shard by rank themselves: exactly once, no padding
            use_distributed_sampler=False,
            profiler=make_profiler(config, run_folder),
            **config.trainer,
        )
    except (TypeError, ValueError, MisconfigurationException) as error:
        # a misspelt name; a value that is not allowed; what this machine lacks
        raise SettingsError(
            f"trainer: {str(error).rstrip('.!')}. Allowed are the arguments of lightning.Trainer, "
            f"with values that this machine can serve; trainer= one of {', '.join(TRAINERS)} sets "
            "them together, and cpu runs everywhere."
        ) from error
    suit_device(trainer)
    return trainer


def make_profiler(config: TrainConfig, run_folder: Path) -> Profiler | None:
    """The profiler that `profile` names; None where it is off."""
    match config.profile:
        case "phases":
            return PhaseProfiler(run_folder / PROFILE)
        case "trace":
            return OperatorTrace(run_folder / TRACE, config.profile_steps)
        case "nvtx":
            return NvtxRanges(config.profile_steps)
    return None


def suit_device(trainer: "pl.Trainer") -> None:
    """Tune the process for the device: TF32 on an accelerator, kept memory on a CPU."""
    if not isinstance(trainer.accelerator, CPUAccelerator):
        # For what stays float32 under mixed precision. TF32 has the exponents of float32 and the
        # mantissa of float16, which is what the stores hold.
        torch.set_float32_matmul_precision("high")
    else:
        keep_freed_memory()


def _silence_lightning() -> None:
    """Hide Lightning's advice on devices and other products; its warnings stay but for these."""
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    if logs_json():
        logging.getLogger("lightning").handlers.clear()  # they print text
    for message in (
        r"Checkpoint directory .* exists and is not empty",  # resuming
        r"Experiment logs directory .* exists and is not empty",  # likewise: see resume_logs
        # resuming with a callback switched off
        r"Be aware that when using `ckpt_path`, callbacks used to create the checkpoint need",
        r"`isinstance\(treespec, LeafSpec\)` is deprecated",
        # what is logged on several processes is already of all of them
        r"It is recommended to use `self\.log\(.*sync_dist=True\)`",
        r"torch\.distributed\.nn\.functional\.all_gather is deprecated",
    ):
        warnings.filterwarnings("ignore", message=message)
