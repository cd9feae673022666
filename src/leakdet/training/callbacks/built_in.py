"""The callbacks of a run: those that are switched on, the checkpoints, and the user's own."""

from pathlib import Path
from typing import Any

from lightning.pytorch.callbacks import (
    Callback,
    LearningRateMonitor,
    ModelCheckpoint,
    ProgressBar,
)

from leakdet.config import TrainConfig, TrainerFlags
from leakdet.training import log_names
from leakdet.training.callbacks.averaging import averaging
from leakdet.training.callbacks.collapse import Collapse
from leakdet.training.callbacks.early_stopping import LossStop, SelectionStop
from leakdet.training.callbacks.findings import Findings
from leakdet.training.callbacks.first_batch import FirstBatch
from leakdet.training.callbacks.gradients import GradientMonitor
from leakdet.training.callbacks.history import History
from leakdet.training.callbacks.loader_wait import LoaderWait
from leakdet.training.callbacks.overfit import Overfit
from leakdet.training.callbacks.own_callbacks import own_callbacks
from leakdet.training.callbacks.progress import EpochTable
from leakdet.training.callbacks.rate_watch import RateWatch
from leakdet.training.callbacks.step_times import StepTimes
from leakdet.training.callbacks.system_use import SystemUse
from leakdet.training.model_selection import Selection


def make_callbacks(config: TrainConfig, run_folder: Path) -> list[Callback]:
    """Callbacks in the order in which Lightning calls them; it moves the checkpoints to the end.

    Raises:
        SettingsError: one of `callbacks.extra` cannot be made.
    """
    own, findings = own_callbacks(config.callbacks.extra), Findings(run_folder)
    # Lightning takes one progress bar: the user's replaces the table
    own_bar = any(isinstance(callback, ProgressBar) for callback in own)
    shows_table = TrainerFlags.of(config.trainer).enable_progress_bar and not own_bar
    return [
        # first, so that what the others do between two batches is told
        *([StepTimes(findings)] if config.callbacks.step_times else []),
        *_stops(config),
        *averaging(config),
        *_monitors(config, findings),
        History(run_folder),
        *checkpoints(run_folder / log_names.CHECKPOINTS, config.select),
        *([EpochTable()] if shows_table else []),
        *own,
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


def _monitors(config: TrainConfig, findings: Findings) -> list[Callback]:
    """The callbacks that log and warn."""
    on = config.callbacks
    monitors: list[tuple[bool, Callback]] = [
        (on.loader_wait, LoaderWait(findings)),
        (on.first_batch, FirstBatch(findings)),
        (on.gradient_monitor, GradientMonitor(findings)),
        (on.rate_watch, RateWatch(findings)),
        (on.collapse, Collapse(findings)),
        (on.overfit, Overfit(findings)),
        (on.system_use, SystemUse(findings)),
    ]
    rates = on.learning_rate_monitor and bool(config.logger)
    return [
        *([LearningRateMonitor("step")] if rates else []),
        findings,
        *(callback for switched_on, callback in monitors if switched_on),
    ]


def checkpoints(folder: Path, select: str = "f1") -> list[Callback]:
    """Best F1, best loss and last. The last is written after the others, so that it knows them.

    Where `select` is not F1, the best by it comes first: Lightning calls the first one the run's.

    `save_last` of the best-F1 callback would not do: it writes only when there is a new best.
    """
    common: dict[str, Any] = {"auto_insert_metric_name": False, "enable_version_counter": False}
    best_f1 = ModelCheckpoint(
        folder, log_names.BEST_F1, monitor=log_names.VAL_RANK, mode="max", **common
    )
    best_loss = ModelCheckpoint(
        folder, log_names.BEST_LOSS, monitor=log_names.VAL_LOSS, mode="min", **common
    )
    best_selected = ModelCheckpoint(
        folder, log_names.BEST_SELECTED, monitor=log_names.VAL_SELECTION, mode="max", **common
    )
    chosen = [] if select == "f1" else [best_selected]
    last = ModelCheckpoint(folder, log_names.LAST, monitor=None, **common)
    return [*chosen, best_f1, best_loss, last]
