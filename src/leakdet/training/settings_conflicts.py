"""Checks of settings against each other, and of what they name."""

from collections.abc import Mapping
from typing import Any

import torch

from leakdet._processes import check_count
from leakdet.config import TrainConfig, TrainerFlags
from leakdet.config.range_checks import is_own
from leakdet.detection.losses import balance_levers, own_loss
from leakdet.detection.networks import network_class
from leakdet.errors import SettingsError


def check_settings(config: TrainConfig) -> None:
    """Raise `SettingsError` where settings contradict each other or name what does not exist."""
    check_accelerator(config.trainer)
    check_processes(config)
    network_class(config.network)
    if is_own(config.loss.name):
        own_loss(config.loss)
    check_balance(config)
    if not TrainerFlags.of(config.trainer).limit_train_batches:
        raise SettingsError("trainer.limit_train_batches=0: nothing would be trained. Remove it.")
    if config.callbacks.extra:
        from leakdet.training.callbacks.own_callbacks import own_classes  # imports Lightning

        own_classes(config.callbacks.extra)
    check_precision(config.trainer)
    if config.trainer.get("profiler") is not None:
        raise SettingsError(
            f"trainer.profiler={config.trainer['profiler']}: Lightning's profilers print nothing "
            "here. Use profile=phases, a table of where the time goes, profile=trace or nvtx."
        )
    partial = partial_validation(config.trainer)
    if partial:
        raise SettingsError(
            f"{', '.join(partial)}: a model cannot be selected on a part of the validation "
            "recordings. Remove it; trainer=debug is a quick trial."
        )


def check_accelerator(trainer: Mapping[str, Any]) -> None:
    """Raise `SettingsError` where a GPU is asked for and this build of torch finds none."""
    accelerator = TrainerFlags.of(trainer).accelerator
    mps = accelerator == "gpu" and torch.backends.mps.is_available()
    if accelerator in ("gpu", "cuda") and not mps and torch.cuda.device_count() == 0:
        raise SettingsError(
            f"trainer.accelerator={accelerator}: torch finds no GPU on this machine. "
            "Use trainer=cpu, or install a build of torch for your GPU and driver."
        )


def check_precision(trainer: Mapping[str, Any]) -> None:
    """Raise `SettingsError` for weights in half precision: losses and scores are of float32."""
    precision = str(trainer.get("precision", ""))
    if precision in ("16-true", "bf16-true", "transformer-engine", "transformer-engine-float16"):
        raise SettingsError(
            f"trainer.precision={precision}: the weights stay in float32. Give 16-mixed or "
            "bf16-mixed, which compute in half precision on a GPU; or leave it out."
        )


def check_processes(config: TrainConfig) -> None:
    """Raise `SettingsError` for far more processes than this machine has cores.

    Two ranks are always allowed, as a trial of distributed training.
    """
    flags = TrainerFlags.of(config.trainer)
    devices = str(flags.devices)
    if flags.accelerator == "cpu" and devices.isdecimal():
        check_count("trainer.devices", int(devices), per_core=1, always=2)
    check_count("data.workers", config.data.workers)


def check_balance(config: TrainConfig) -> None:
    """Raise `SettingsError` where several settings shift the class balance, unless allowed."""
    levers = balance_levers(config.loss, config.data.sampling)
    if len(levers) > 1 and not config.loss.allow_several_balances:
        raise SettingsError(
            f"{' and '.join(levers)} each shift the class balance, and together they multiply. "
            "Keep one of them, or give loss.allow_several_balances=true."
        )


def partial_validation(trainer: Mapping[str, Any]) -> list[str]:
    """The settings, `trainer.name=value`, that make Lightning validate on a part only."""
    flags = TrainerFlags.of(trainer)
    # 1.0 is all batches, but 1 is one batch
    whole = isinstance(flags.limit_val_batches, float) and flags.limit_val_batches == 1.0
    names = [] if whole else ["limit_val_batches"]
    names += [name for name in ("overfit_batches", "fast_dev_run") if getattr(flags, name)]
    return [f"trainer.{name}={getattr(flags, name)}" for name in names]
