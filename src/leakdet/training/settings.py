"""Settings of a training: refused where they contradict each other, then as its data allow.

`data.batch_size` is the one setting of the batch size; under 0 it is chosen.

A threshold, and a choice among checks, made on a handful of validation recordings is noise: then
a fixed number of passes and the threshold 0.5 do better (docs/results.md).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from leakdet.config import DataConfig, DecisionConfig, StopConfig, TrainConfig, TrainerFlags
from leakdet.config.conflicts import check_trainer
from leakdet.config.fields import is_own
from leakdet.core.errors import SettingsError
from leakdet.core.plugins import import_named
from leakdet.detection.losses import balance_levers, own_loss
from leakdet.detection.networks import network_class
from leakdet.loading.memory import device_bytes

if TYPE_CHECKING:
    from lightning.pytorch.callbacks import Callback


def check_settings(config: TrainConfig) -> None:
    """Raise `SettingsError` where settings contradict each other or name what does not exist."""
    check_accelerator(config.trainer)
    check_trainer(config)
    check_ranges_of_gpu(config)
    network_class(config.network)
    if is_own(config.loss.name):
        own_loss(config.loss)
    check_balance(config)
    own_classes(config.callbacks.extra)


EXTRA = "callbacks.extra"


def own_classes(names: Sequence[str]) -> list[type["Callback"]]:
    """The classes `package.module:Class`."""
    return [_callback_class(name) for name in names]


def _callback_class(name: str) -> type["Callback"]:
    from lightning.pytorch.callbacks import Callback  # a slow import

    kind = import_named(EXTRA, name)
    if not (isinstance(kind, type) and issubclass(kind, Callback)):
        raise SettingsError(
            f"{EXTRA}: {name} is no callback; it must be a subclass of "
            "lightning.pytorch.callbacks.Callback."
        )
    return kind


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


# Batch size by the memory in GB (10**9 bytes) of the smallest of several GPUs, the first that it
# has at least: to find it by steps, as on one GPU, their processes would have to agree. A step of
# dual_head, the largest network, keeps 0.2 to 1.8 MB of activations for each sample, by the signal,
# and takes twice as much at its peak: half of that in bf16. So at most half of the memory is for
# the batch, and the rest for the windows of the store. Past 8192 a step is long enough to keep a
# GPU busy, and a larger one only leaves fewer steps in an epoch: 16384 is for the largest GPUs.
BY_MEMORY = ((128, 16384), (30, 8192), (15, 4096), (7.5, 2048), (0, 1024))


def batch_size_for(trainer: Mapping[str, Any]) -> int:
    """The batch size where the setting is 0: the default on a CPU, by memory on several GPUs.

    On one GPU it stays 0: steps find it before the training.
    """
    totals = [total for _, total in device_bytes(trainer)]
    if not totals:
        return DataConfig().batch_size
    if len(totals) * TrainerFlags.of(trainer).num_nodes == 1:
        return 0
    return next(size for least, size in BY_MEMORY if min(totals) >= least * 1e9)


FEW_RECORDINGS = 20  # for validation; below, stop.name=auto is fixed


def stop_name(stop: StopConfig, val_recordings: int) -> str:
    """`val` or `fixed`, as it applies with so many validation recordings."""
    if stop.name != "auto":
        return stop.name
    return "fixed" if val_recordings < FEW_RECORDINGS else "val"


def needs_val(config: TrainConfig, val_recordings: int) -> bool:
    """True if val chooses the checkpoint or fits threshold or calibration, and so may not train."""
    fitted = config.decision.policy not in ("auto", "fixed")
    calibrated = config.decision.calibration != "none"
    return stop_name(config.stop, val_recordings) == "val" or fitted or calibrated


def resolved(config: TrainConfig, val_recordings: int, train_samples: int) -> TrainConfig:
    """The settings as they apply to these recordings: no `auto` in stop.name and decision.policy.

    Under `fixed` they also have the number of epochs, and batches small enough for stop.batches.
    The batch size is 0 only where steps on a GPU will find it. Applied twice, it changes nothing
    more.
    """
    size = config.data.batch_size or batch_size_for(config.trainer)
    stop = replace(config.stop, name=stop_name(config.stop, val_recordings))
    trainer = config.trainer
    if stop.name == "fixed":
        epochs = TrainerFlags.of(trainer).max_epochs
        epochs = stop.passes if epochs < 0 else min(epochs, stop.passes)
        trainer = {**trainer, "max_epochs": epochs}
        size = min(size, max(1, train_samples // stop.batches))
    return replace(
        config,
        stop=stop,
        decision=_decision(config.decision, stop.name),
        data=replace(config.data, batch_size=size),
        trainer=trainer,
    )


def _decision(decision: DecisionConfig, stop: str) -> DecisionConfig:
    if decision.policy != "auto":
        return decision
    if stop == "val":
        return replace(decision, policy="max_f1")
    return replace(decision, policy="fixed", threshold=0.5)
