"""Putting a run together: callbacks, loggers, trainer; and fitting until it stops."""

from collections.abc import Sequence
from pathlib import Path

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint

from leakdet.config import TrainConfig
from leakdet.errors import LeakdetError
from leakdet.training import log_names
from leakdet.training.callbacks.interruption import Interrupted, Interruption
from leakdet.training.checkpoint_io import read_checkpoint
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.distributed import together
from leakdet.training.interference_bank import interference_bank
from leakdet.training.lr_batch_finder import found_settings
from leakdet.training.module import LeakModule
from leakdet.training.resumable_csv_logger import go_on
from leakdet.training.resume import starting_checkpoint
from leakdet.training.resume_compatibility import as_found
from leakdet.training.settings_conflicts import check_settings
from leakdet.training.trainer import make_trainer
from leakdet.training.warm_start import inherit_best, initialise


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
    run_folder.mkdir(parents=True, exist_ok=True)
    pl.seed_everything(config.seed, workers=True, verbose=False)
    started = starting_checkpoint(config, data, run_folder)
    if started is not None:
        checkpoint = read_checkpoint(started)
        config = as_found(config, checkpoint)
        data.resumed_at = checkpoint["loops"]["fit_loop"]["state_dict"]["combined_loader"][0]
        data.config = config
    interruption = Interruption(run_folder / log_names.CHECKPOINTS / f"{log_names.LAST}.ckpt")
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
        callbacks: list[Callback] = trainer.callbacks  # type: ignore[attr-defined]
        source, folder = Path(str(config.init_from)), run_folder / log_names.CHECKPOINTS
        inherit_best(callbacks, source, folder)
    if config.compile:
        module.network.compile()  # in place: checkpoint keys stay as they are
    with interruption.listening(), together(trainer, interruption.checkpoint):
        trainer.fit(module, datamodule=data, ckpt_path=started, weights_only=True)
    # interrupted during the last validation check: skip evaluation and reporting
    if interruption.received:
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
