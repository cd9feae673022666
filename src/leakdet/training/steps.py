"""Steps of a training: the samples in each, how many an epoch has, and when they end.

A threshold, and a choice among checks, made on a handful of validation recordings is noise: then
a fixed number of passes and the threshold 0.5 do better (docs/results.md).
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from leakdet.config import DecisionConfig, StopConfig, TrainConfig, TrainerFlags
from leakdet.core.errors import counted
from leakdet.loading.memory import accelerator_total_bytes
from leakdet.loading.order import epoch_bounds

if TYPE_CHECKING:
    from leakdet.training.datamodule import LeakDataModule

WITHOUT_GPU = 512
# Batch size by a GPU's memory in GB (10**9 bytes), the first that it has at least. A step of
# dual_head, the largest network, keeps 0.2 to 1.8 MB of activations for each sample, by the signal,
# and takes twice as much at its peak: half of that in bf16. So at most half of the memory is for
# the batch, and the rest for the windows of the store. Past 8192 a step is long enough to keep a
# GPU busy, and a larger one only leaves fewer steps in an epoch: 16384 is for the largest GPUs.
BY_MEMORY = ((128, 16384), (30, 8192), (15, 4096), (7.5, 2048), (0, 1024))
FEW_STEPS, ENOUGH_STEPS = 5, 10  # in an epoch


def batch_size_for(trainer: Mapping[str, Any]) -> int:
    """The batch size that suits the GPU with the least memory; 512 without a CUDA device."""
    total = accelerator_total_bytes(trainer)
    if total is None:
        return WITHOUT_GPU
    return next(size for least, size in BY_MEMORY if total >= least * 1e9)


def with_batch_size(config: TrainConfig) -> TrainConfig:
    """The settings with a batch size, chosen for the GPU where it is 0."""
    if config.data.batch_size:
        return config
    size = batch_size_for(config.trainer)
    return replace(config, data=replace(config.data, batch_size=size))


def steps_line(config: TrainConfig, data: "LeakDataModule") -> str:
    """Optimiser steps of an epoch and the samples in each: the effective batch size."""
    steps, samples = _steps(config, data)
    together = TrainerFlags.of(config.trainer).accumulate_grad_batches
    of = f", {together} batches together" if together > 1 else ""
    at_most = "at most " * (steps > 1)
    return f"{steps} an epoch, each of {at_most}{samples} {config.data.unit}s{of}"


def few_steps_notes(config: TrainConfig, data: "LeakDataModule") -> Iterator[str]:
    """A note where an epoch is a handful of steps, and val chooses among its ends.

    None where the batch size is yet to be found.
    """
    if config.find_batch_size:
        return
    steps, _ = _steps(config, data)
    together = TrainerFlags.of(config.trainer).accumulate_grad_batches
    size = len(data.train_samples) // (ENOUGH_STEPS * together)
    if steps < FEW_STEPS and config.stop.name == "val" and size:
        yield (
            f"an epoch is {counted(steps, 'optimiser step')}, so the weights hardly "
            f"move between two validation checks; data.batch_size={size} makes it {ENOUGH_STEPS}"
        )


def unused_gpu_notes(config: TrainConfig) -> Iterator[str]:
    """A note where this machine has a GPU that the training does not use."""
    if TrainerFlags.of(config.trainer).accelerator == "cpu" and torch.cuda.is_available():
        yield "this machine has a GPU, which this training does not use: trainer=gpu does"


def _steps(config: TrainConfig, data: "LeakDataModule") -> tuple[int, int]:
    """Steps of an epoch, and the most samples in one."""
    bounds = epoch_bounds(data.train_samples.class_counts(), config.data)
    flags = TrainerFlags.of(config.trainer)
    batches, together = len(bounds) - 1, flags.accumulate_grad_batches
    limit = flags.limit_train_batches
    batches = min(batches, limit) if isinstance(limit, int) else int(batches * limit)
    largest = int(np.diff(bounds).max())
    return max(1, math.ceil(batches / together)), largest * min(together, max(1, batches))


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


def resolved(config: TrainConfig, data: "LeakDataModule") -> TrainConfig:
    """The settings as they apply to these recordings: no `auto` in stop.name and decision.policy.

    Under `fixed` they also have the number of epochs, and batches small enough for stop.batches.
    The batch size is never 0. Applied twice, it changes nothing more.
    """
    config = with_batch_size(config)
    stop = replace(config.stop, name=stop_name(config.stop, data.splits.val.recordings))
    decision = _decision(config.decision, stop.name)
    if stop.name == "val":
        return replace(config, stop=stop, decision=decision)
    epochs = TrainerFlags.of(config.trainer).max_epochs
    epochs = stop.passes if epochs < 0 else min(epochs, stop.passes)
    most = max(1, len(data.train_samples) // stop.batches)
    return replace(
        config,
        stop=stop,
        decision=decision,
        data=replace(config.data, batch_size=min(config.data.batch_size, most)),
        trainer={**config.trainer, "max_epochs": epochs},
    )


def _decision(decision: DecisionConfig, stop: str) -> DecisionConfig:
    if decision.policy != "auto":
        return decision
    if stop == "val":
        return replace(decision, policy="max_f1")
    return replace(decision, policy="fixed", threshold=0.5)
