"""Warns where nothing is learnt: of too low a learning rate, and of a loss that stays flat."""

from collections.abc import Mapping, Sequence
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback

from leakdet.config import TrainConfig
from leakdet.detection.losses import chance_loss
from leakdet.training import log_names
from leakdet.training.callbacks.findings import Finding, Findings
from leakdet.training.module import LeakModule

NEAR = 0.8  # of the loss of guessing: below, much was learnt before the first check
FLAT = 0.97  # of the first loss or that of guessing, below which something was learnt
CHECKS, STEPS = 5, 50  # after the warm-up, before a loss is called flat
LEAST = 1e-6
LAST_SHARE = 0.9  # of the run, after which a low rate is the schedule's end


class RateWatch(Callback):
    """Looks at the rate at the end of each epoch, when a warm-up has begun to rise.

    At each validation check it looks at the loss, of weights that began at random.
    """

    def __init__(self, findings: Findings) -> None:
        self.findings = findings

    def on_validation_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if isinstance(pl_module, LeakModule) and pl_module.config.init_from is None:
            config = pl_module.config
            classes = zip(range(len(pl_module.weights)), pl_module.data.train_mix, strict=True)
            guessing = sum(
                share * chance_loss(torch.tensor([number]), pl_module.weights.cpu(), config.loss)
                for number, share in classes
            )
            self.findings.warn(trainer, flat_loss(pl_module.history, float(guessing), config))

    def on_train_epoch_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        rate = max(
            group["lr"] for optimizer in trainer.optimizers for group in optimizer.param_groups
        )
        done = trainer.global_step / max(1.0, float(trainer.estimated_stepping_batches))
        self.findings.warn(trainer, low_rate(rate, done))


def low_rate(rate: float, done: float) -> Finding | None:
    """Judge a learning rate after the share `done` of the run's optimiser steps."""
    if rate >= LEAST or done >= LAST_SHARE:
        return None
    return Finding(
        "learning_rate",
        f"the learning rate is {rate:.3g} after {done:.0%} of the run: the weights hardly change. "
        "See optimizer.lr and optimizer.warmup_epochs; find_lr=true proposes a rate.",
    )


def flat_loss(
    history: Sequence[Mapping[str, Any]], guessing: float, config: TrainConfig
) -> Finding | None:
    """Judge whether the class loss in training has stayed near `guessing`, that of equal logits."""
    rows = [row for row in history if row["epoch"] >= config.optimizer.warmup_epochs]
    if len(rows) < CHECKS or rows[-1]["step"] - rows[0]["step"] < STEPS:
        return None
    losses = [float(row[log_names.TRAIN_CLASS_LOSS]) for row in history]
    if losses[0] <= NEAR * guessing or min(losses) <= FLAT * min(losses[0], guessing):
        return None
    finder = "" if config.find_lr else " (find_lr=true proposes one)"
    return Finding(
        "flat_loss",
        f"the class loss in training was {losses[0]:.3f} at the first check and is "
        f"{losses[-1]:.3f} after {len(losses)}, never below {min(losses):.3f}; guessing has "
        f"{guessing:.3f}: nothing is learnt. Try another "
        f"optimizer.lr{finder} and a larger network; listen whether the recordings with a leak "
        "differ from the others, and whether their labels are right.",
    )
