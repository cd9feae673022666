"""Checks of settings against each other, and of what they name."""

from collections.abc import Mapping
from typing import Any

import torch

from leakdet.config import TrainConfig, TrainerFlags
from leakdet.config.conflicts import check_trainer
from leakdet.config.fields import is_own
from leakdet.core.errors import SettingsError
from leakdet.detection.losses import balance_levers, own_loss
from leakdet.detection.networks import network_class


def check_settings(config: TrainConfig) -> None:
    """Raise `SettingsError` where settings contradict each other or name what does not exist."""
    check_accelerator(config.trainer)
    check_trainer(config)
    check_ranges_of_gpu(config)
    network_class(config.network)
    if is_own(config.loss.name):
        own_loss(config.loss)
    check_balance(config)
    if config.callbacks.extra:
        from leakdet.training.callbacks.built_in import own_classes  # imports Lightning

        own_classes(config.callbacks.extra)


def check_accelerator(trainer: Mapping[str, Any]) -> None:
    """Raise `SettingsError` where a GPU is asked for and this build of torch finds none."""
    accelerator = TrainerFlags.of(trainer).accelerator
    mps = accelerator == "gpu" and torch.backends.mps.is_available()
    if accelerator in ("gpu", "cuda") and not mps and torch.cuda.device_count() == 0:
        raise SettingsError(
            f"trainer.accelerator={accelerator}: torch finds no GPU on this machine. "
            "Use trainer=cpu, or install a build of torch for your GPU and driver."
        )


def check_ranges_of_gpu(config: TrainConfig) -> None:
    """Raise `SettingsError` for NVTX ranges without a CUDA device."""
    if config.profile == "nvtx" and not torch.cuda.is_available():
        raise SettingsError(
            "profile=nvtx marks ranges for Nsight Systems and needs a CUDA device, which torch "
            "does not find. profile=phases and profile=trace work on a CPU."
        )


def check_balance(config: TrainConfig) -> None:
    """Raise `SettingsError` where several settings shift the class balance, unless allowed."""
    levers = balance_levers(config.loss, config.data.sampling)
    if len(levers) > 1 and not config.loss.allow_several_balances:
        raise SettingsError(
            f"{' and '.join(levers)} each shift the class balance, and together they multiply. "
            "Keep one of them, or give loss.allow_several_balances=true."
        )
