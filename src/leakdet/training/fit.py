"""One fit: resumed or new, with the settings that a finder chose, until it stops."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint, Timer

from leakdet.core.errors import LeakdetError
from leakdet.core.messages import LOG
from leakdet.core.process import follow_parent, is_child, named_to_children
from leakdet.detection.networks import make_network
from leakdet.storage.model_card import model_in
from leakdet.training import log_names
from leakdet.training.callbacks.stopping import Interrupted, Interruption
from leakdet.training.checkpoints import inherit_best, initialise, read_checkpoint
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.finders import with_found_settings
from leakdet.training.memory import full_memory_explained
from leakdet.training.module import LeakModule
from leakdet.training.resume import starting_checkpoint, with_chosen_settings
from leakdet.training.settings import check_settings
from leakdet.training.sounds import read_sound_folder
from leakdet.training.trainer import make_trainer, resume_logs
from leakdet.training.validation import lost_peer_explained


def fit(data: LeakDataModule, run_folder: Path, extra: Sequence[Callback] = ()) -> pl.Trainer:
    """Train to the end under the settings of `data`, with checkpoints and logs in `run_folder`.

    `extra` callbacks come after all others.
    """
    if is_child():
        follow_parent()
    check_settings(data.given)
    data.setup("fit")
    data.read_windows()
    run_folder.mkdir(parents=True, exist_ok=True)
    pl.seed_everything(data.given.seed, workers=True, verbose=False)
    resumed = starting_checkpoint(data, run_folder)
    if resumed is not None:
        checkpoint = read_checkpoint(resumed)
        data = data.with_settings(with_chosen_settings(data, checkpoint))
    config = data.config
    checkpoints = run_folder / log_names.CHECKPOINTS
    interruption = Interruption(checkpoints / f"{log_names.LAST}{log_names.ENDING}")
    trainer = make_trainer(config, run_folder, [*extra, interruption])
    if resumed is not None:
        resume_logs(trainer, int(checkpoint["global_step"]))
    if config.threads:
        torch.set_num_threads(config.threads)
    module = make_module(data)
    if resumed is None and (config.find_lr or not config.data.batch_size):
        data = with_found_settings(module, run_folder, trainer)
        # re-seed: the finders consumed random numbers
        pl.seed_everything(config.seed, workers=True, verbose=False)
        module = make_module(data)
    inherited: list[Path] = []
    if "best_score" in module.inherited:
        callbacks: list[Callback] = trainer.callbacks  # type: ignore[attr-defined]
        inherited = inherit_best(callbacks, model_in(Path(str(config.init_from))), checkpoints)
    explained = lost_peer_explained(trainer, interruption.checkpoint)
    on_gpu = trainer.strategy.root_device.type != "cpu"
    fits = full_memory_explained(data.config.data, data.residency.kind, on_gpu)
    try:
        with interruption.listening(), explained, fits, named_to_children():
            trainer.fit(module, datamodule=data, ckpt_path=resumed, weights_only=True)
    finally:
        if not trainer.global_step:  # without a step, the folder has no run yet
            for path in inherited:
                path.unlink(missing_ok=True)
    # interrupted during the last validation check: skip evaluation and reporting
    if interruption.received:
        raise Interrupted(interruption.received, interruption.checkpoint)
    _check_trained(trainer)
    if trainer.is_global_zero:
        begun = -1 if resumed is None else int(checkpoint["global_step"])
        _say_limit(trainer, untrained=trainer.global_step == begun)
    return trainer


def make_module(data: LeakDataModule) -> LeakModule:
    """A module ready for its first step: input statistics or initial weights, sounds to mix in."""
    config = data.config
    network = make_network(config.network, data.sample_shape, len(data.labels.names))
    inherited, interference = {}, None
    if config.init_from is not None:
        inherited = initialise(network, data, model_in(Path(config.init_from)))
    elif config.network.standardise:
        network.input.fit(data.standardisation_batches())
    if config.augment.interference is not None:
        folder = Path(config.augment.interference)
        sounds = read_sound_folder(
            "augment.interference", folder, data.splits.train, config.data.unit
        )
        interference = sounds.mel
    return LeakModule(data, network, interference, inherited)


def _check_trained(trainer: pl.Trainer) -> None:
    """Raise `LeakdetError` for a run that did nothing or met NaN; Lightning returns normally."""
    if trainer.global_step == 0:
        raise LeakdetError(
            "Training ended without one optimiser step; see trainer.max_epochs, trainer.max_time "
            "and trainer.limit_train_batches."
        )
    stopper = trainer.early_stopping_callback
    if isinstance(stopper, EarlyStopping) and "finite" in (stopper.stopping_reason_message or ""):
        raise LeakdetError(
            f"Training stopped in epoch {trainer.current_epoch + 1}: "
            f"{stopper.stopping_reason_message} "
            "Lower optimizer.lr or set trainer.gradient_clip_val."
        )


def _say_limit(trainer: pl.Trainer, untrained: bool) -> None:
    """Say that `trainer.max_time` ended the run, or which limit lets a resumed one do nothing."""
    callbacks: list[Callback] = trainer.callbacks  # type: ignore[attr-defined]
    timers = [callback for callback in callbacks if isinstance(callback, Timer)]
    is_over = any((timer.time_remaining() or math.inf) <= 0 for timer in timers)
    nothing = "; nothing more was trained" if untrained else ""
    if is_over:
        LOG.info(
            f"stopped  trainer.max_time is over{nothing}. It counts the whole run: to train on, "
            "resume with a longer one, or with +trainer.max_time=null"
        )
    elif untrained and not trainer.early_stopping_callback:
        LOG.info(
            f"stopped  the run had reached trainer.max_epochs={trainer.max_epochs} or "
            f"max_steps={trainer.max_steps}{nothing}. To train on, resume with a higher one"
        )


def result_checkpoint(trainer: pl.Trainer) -> Path:
    """The checkpoint that is the result: of the best check by `select`, or the last under fixed."""
    module: Any = trainer.lightning_module
    fixed = module.config.stop.name == "fixed"
    best = log_names.BEST_F1 if module.config.select == "f1" else log_names.BEST_SELECTED
    wanted = log_names.LAST if fixed else best
    callbacks = (c for c in trainer.checkpoint_callbacks if isinstance(c, ModelCheckpoint))
    callback = next((c for c in callbacks if c.filename == wanted), None)
    known = bool(callback and callback.best_model_path)
    if callback and known and Path(callback.best_model_path).exists():
        return Path(callback.best_model_path)
    checkpoints = Path(str(callback.dirpath)) if callback else Path()
    last = checkpoints / f"{log_names.LAST}{log_names.ENDING}"
    if not (known or (module.config.resume and last.exists())):
        raise LeakdetError(
            "No validation check was reached, so there is no best model; raise trainer.max_epochs "
            "or max_steps."
        )
    if not last.exists():
        raise LeakdetError(f"{checkpoints}: was removed while it trained, and nothing is left.")
    LOG.warning(
        "%s: the checkpoint of the best check is gone, as where a folder is removed while it "
        "trains: the model is that of the last check, and curves may lack their beginning",
        checkpoints.parent,
    )
    return last
