"""The callbacks of a run: those that are switched on, the checkpoints, and the user's own."""

from collections.abc import Sequence
from pathlib import Path

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import (
    Callback,
    LearningRateMonitor,
    ModelCheckpoint,
    ProgressBar,
)
from lightning.pytorch.loggers import CSVLogger

from leakdet.config import TrainConfig, TrainerFlags
from leakdet.core.errors import SettingsError
from leakdet.core.files import require_space
from leakdet.detection.networks import make_network
from leakdet.tables.write import write_csv
from leakdet.training import log_names
from leakdet.training.callbacks.averaging import averaging
from leakdet.training.callbacks.diagnostics import Diagnostics, Findings
from leakdet.training.callbacks.progress import EpochTable
from leakdet.training.callbacks.speed import Speed
from leakdet.training.callbacks.stopping import LossStop, SelectionStop
from leakdet.training.checkpoints import BETTER, MONITORED
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.module import LeakModule
from leakdet.training.settings import EXTRA, own_classes
from leakdet.training.validation import Selection


class History(Callback):
    """Writes the file anew at every check, from the rows in the module's checkpoint.

    The rows of steps are written then too: a run that is killed resumes from a checkpoint that
    follows.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / log_names.HISTORY

    def on_validation_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if isinstance(pl_module, LeakModule) and pl_module.history and trainer.is_global_zero:
            write_csv(self.path, pl_module.history)
            for logger in trainer.loggers:
                if isinstance(logger, CSVLogger):
                    logger.save()


def own_callbacks(names: Sequence[str]) -> list[Callback]:
    """An instance of each class, made without arguments. Errors are those of `own_classes`."""
    return [_instance(name, kind) for name, kind in zip(names, own_classes(names), strict=True)]


def _instance(name: str, kind: type[Callback]) -> Callback:
    try:
        return kind()
    except TypeError as error:
        raise SettingsError(
            f"{EXTRA}: {name} is made without arguments, and that failed ({error}). Give its "
            "arguments defaults, or name a subclass that sets them."
        ) from error


def make_callbacks(config: TrainConfig, run_folder: Path) -> list[Callback]:
    """Callbacks in the order in which Lightning calls them; it moves the checkpoints to the end."""
    on, findings = config.callbacks, Findings(run_folder)
    extra = own_callbacks(on.extra)
    # Lightning takes one progress bar: the user's replaces the table
    own_bar = any(isinstance(callback, ProgressBar) for callback in extra)
    shows_table = TrainerFlags.of(config.trainer).enable_progress_bar and not own_bar
    return [
        *([Speed(findings, on)] if on.step_times or on.loader_wait or on.system_use else []),
        *_stops(config),
        *averaging(config),
        *([LearningRateMonitor("step")] if on.learning_rate_monitor and config.logger else []),
        Diagnostics(findings, on),
        History(run_folder),
        *checkpoints(run_folder / log_names.CHECKPOINTS, config.select),
        *([EpochTable()] if shows_table else []),
        *extra,
    ]


def _stops(config: TrainConfig) -> list[Callback]:
    """The callbacks that end a training early; none for a fixed number of passes."""
    if config.stop.name == "fixed":
        return []
    on, flags = config.callbacks, TrainerFlags.of(config.trainer)
    by = Selection.of(config)
    no_better = [SelectionStop(config.patience, flags, by)] if on.early_stopping else []
    rising = on.loss_stop and config.loss_patience
    return [*no_better, *([LossStop(config.loss_patience, flags, by)] if rising else [])]


def checkpoints(folder: Path, select: str = "f1") -> list[Callback]:
    """Best F1, best loss and last. The last is written after the others, so that it knows them.

    Where `select` is not F1, the best by it comes first: Lightning calls the first one the run's.

    `save_last` of the best-F1 callback would not do: it writes only when there is a new best.
    """
    names = [log_names.BEST_F1, log_names.BEST_LOSS, log_names.LAST]
    return [
        ModelCheckpoint(
            folder,
            name,
            monitor=MONITORED[name],
            mode="max" if BETTER.get(name) is max else "min",
            auto_insert_metric_name=False,
            enable_version_counter=False,
        )
        for name in (names if select == "f1" else [log_names.BEST_SELECTED, *names])
    ]


RESULTS_BYTES = 5_000_000  # report, figures, rows and logs of a usual run
COPIES = 3  # in a checkpoint: the weights, and two moments of the optimiser


def space_line(data: LeakDataModule, folder: Path) -> str:
    """Check before work that the run folder's disk has room; a line for the introduction."""
    config = data.config
    with torch.device("meta"):
        network = make_network(config.network, data.sample_shape, len(data.labels.names))
    weights = sum(tensor.nbytes for tensor in network.state_dict().values())
    of_checkpoint = weights * (COPIES + (config.averaging.name != "none"))
    count = len(checkpoints(folder, config.select)) + 1  # one more while it is replaced
    need = count * of_checkpoint + weights + RESULTS_BYTES
    return f"folder   {folder}: {require_space(folder, need, str(folder))}"
