"""Lightning's trainer as the settings ask for it, with this run's callbacks and loggers."""

import logging
import warnings
from collections.abc import Sequence
from pathlib import Path

import lightning.pytorch as pl
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.accelerators import CPUAccelerator
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.profilers import Profiler

from leakdet._messages import logs_json
from leakdet.config import TrainConfig
from leakdet.errors import SettingsError
from leakdet.training.callbacks.built_in import make_callbacks
from leakdet.training.checkpoint_io import AtomicCheckpointIO
from leakdet.training.loggers import make_loggers
from leakdet.training.malloc import keep_freed_memory
from leakdet.training.phase_profiler import PROFILE, PhaseProfiler
from leakdet.training.step_recording import TRACE, NvtxRanges, OperatorTrace

TRAINERS = ("cpu", "gpu", "ddp", "debug")  # files of conf/trainer


def make_trainer(
    config: TrainConfig, run_folder: Path, extra: Sequence[Callback] = ()
) -> pl.Trainer:
    """A trainer that writes under `run_folder`; `extra` callbacks come after all others.

    Raises:
        SettingsError: a flag of the trainer, a logger or a callback that does not exist, or what
            this machine lacks.
    """
    _silence_lightning()
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
        # resuming with a callback switched off
        r"Be aware that when using `ckpt_path`, callbacks used to create the checkpoint need",
        r"`isinstance\(treespec, LeafSpec\)` is deprecated",
        # what is logged on several processes is already of all of them
        r"It is recommended to use `self\.log\(.*sync_dist=True\)`",
        r"torch\.distributed\.nn\.functional\.all_gather is deprecated",
    ):
        warnings.filterwarnings("ignore", message=message)
