"""Warns where the network memorises the training recordings."""

import itertools
from collections.abc import Sequence
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback

from leakdet.training.callbacks.findings import Finding, Findings
from leakdet.training.module import LeakModule

CHECKS = 3  # in a row


class Overfit(Callback):
    """Keeps the latest training losses and true-positive rates, and warns by `overfit`."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.train_losses: list[float] = []
        self.tprs: list[float | None] = []

    def on_validation_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if not isinstance(pl_module, LeakModule) or pl_module.latest is None:
            return
        result = pl_module.latest
        self.train_losses = [*self.train_losses, result.train_loss[0]][-CHECKS - 1 :]
        self.tprs = [*self.tprs, result.tpr_at_least_fpr][-CHECKS - 1 :]
        self.findings.warn(trainer, overfit(self.train_losses, self.tprs))

    def state_dict(self) -> dict[str, Any]:
        return {"train_losses": self.train_losses, "tprs": self.tprs}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.train_losses, self.tprs = list(state_dict["train_losses"]), list(state_dict["tprs"])


def overfit(train_losses: Sequence[float], tprs: Sequence[float | None]) -> Finding | None:
    """Judge whether the training loss and the leaks found have fallen together, CHECKS times.

    `tprs` are true-positive rates at the smallest false-positive rate that can be measured.
    """
    losses = train_losses[-CHECKS - 1 :]
    rates = [rate for rate in tprs[-CHECKS - 1 :] if rate is not None]
    if len(losses) <= CHECKS or len(rates) <= CHECKS:
        return None
    if not all(b < a for series in (losses, rates) for a, b in itertools.pairwise(series)):
        return None
    return Finding(
        "overfit",
        f"train loss fell in {CHECKS} checks ({losses[0]:.3f} to {losses[-1]:.3f}) while the leaks "
        "found at the smallest measurable false-alarm rate fell too "
        f"({rates[0]:.3f} to {rates[-1]:.3f}): the network memorises the training recordings. "
        "Raise network.dropout, augment.eq_db or optimizer.weight_decay, or bring more recordings.",
    )
