"""Optimiser, schedule, and the divisor of a batch's losses in its optimiser step."""

import math
from typing import Any

import lightning.pytorch as pl
import numpy as np
from torch import nn
from torch.optim import Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR

from leakdet.config import OptimizerConfig
from leakdet.core.errors import SettingsError


def make_optimizer(network: nn.Module, settings: OptimizerConfig) -> Optimizer:
    """Fused AdamW or Adam.

    Biases and norms (one axis) are not decayed, which would only shift them.
    """
    decayed = [p for p in network.parameters() if p.ndim > 1]
    free = [p for p in network.parameters() if p.ndim <= 1]
    groups = [
        {"params": decayed, "weight_decay": settings.weight_decay},
        {"params": free, "weight_decay": 0.0},
    ]
    kind: type[Adam] = AdamW if settings.name == "adamw" else Adam
    optimizer = kind(groups, lr=settings.lr, fused=True)
    # The fused step could unscale fp16 gradients itself, and then Lightning refuses to clip them,
    # under bf16 too, where nothing is scaled. Without the offer the scaler unscales them before.
    optimizer._step_supports_amp_scaling = False
    return optimizer


def rate_share(step: int, warmup: int, total: int, floor: float) -> float:
    """Learning rate after `step` optimiser steps as a share of its peak.

    Linear from 1 / (warmup + 1) at the first step to 1 at step `warmup`, then half a cosine to
    `floor` at step `total`, and `floor` from there on. In closed form: a resumed run is exactly
    where it was, and a run that is made longer follows the longer curve.
    """
    if step < warmup:
        return (1 + step) / (warmup + 1)
    done = min(1.0, (step - warmup) / max(1, total - warmup))
    return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * done))


def warmup_cosine(
    optimizer: Optimizer, settings: OptimizerConfig, total: int, per_epoch: float
) -> LambdaLR:
    """`rate_share` over `total` optimiser steps; a warm-up takes at most their first half."""
    warmup = min(round(settings.warmup_epochs * per_epoch), total // 2)
    floor = min(1.0, settings.min_lr / settings.lr) if settings.lr > 0 else 1.0
    return LambdaLR(optimizer, lambda step: rate_share(step, warmup, total, floor))


def steps_of(trainer: pl.Trainer) -> tuple[int, float]:
    """Optimiser steps of the whole run and of an epoch."""
    total = trainer.estimated_stepping_batches
    if total == math.inf:
        raise SettingsError(
            "trainer.max_epochs=-1: the learning rate falls towards the end of a run, and this one "
            "has none. Give trainer.max_epochs, or +trainer.max_steps."
        )
    # sets num_training_batches, which the estimate leaves out where +trainer.max_steps ends the run
    trainer.fit_loop.setup_data()
    batches, accumulated = trainer.num_training_batches, trainer.accumulate_grad_batches
    return int(total), float(math.ceil(batches / accumulated))


def samples_in_step(sizes: np.ndarray, batch_idx: int, accumulate: int, batches: int) -> int:
    """Samples of all processes in the optimiser step of batch `batch_idx`.

    `sizes` are those of an epoch's batches, of which the first `batches` are trained on in steps of
    `accumulate` each; the last step may have fewer.
    """
    first = batch_idx - batch_idx % accumulate
    return int(sizes[first : min(first + accumulate, batches)].sum())


def step_divisor(trainer: pl.Trainer, batch_idx: int) -> float:
    """The divisor of this process's sum of losses that makes the step's gradient a mean of samples.

    Lightning divides by the number of batches in a full step and DDP by the number of processes,
    whatever these hold; the divisor undoes both.
    """
    loader: Any = trainer.train_dataloader
    sizes = loader.batch_sizes()
    accumulate, batches = trainer.accumulate_grad_batches, int(trainer.num_training_batches)
    return samples_in_step(sizes, batch_idx, accumulate, batches) / (
        accumulate * trainer.world_size
    )
