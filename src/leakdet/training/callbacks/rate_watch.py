"""Warns of a learning rate at which nothing is learnt."""

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback

from leakdet.training.callbacks.findings import Finding, Findings

LEAST = 1e-6
LAST_SHARE = 0.9  # of the run, after which a low rate is the schedule's end


class RateWatch(Callback):
    """Looks at the end of each epoch, when a warm-up has begun to rise."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings

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
