"""Warns where the network memorises the training recordings."""

from collections.abc import Mapping, Sequence
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback

from leakdet.training import log_names
from leakdet.training.callbacks.findings import Finding, Findings
from leakdet.training.module import LeakModule

CHECKS = 3  # in a row, the first of the fall included
BEYOND_NOISE = 4.0  # standard errors of a difference of two rates


class Overfit(Callback):
    """Reads the history of validation checks, which a resumed run has too."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings

    def on_validation_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if isinstance(pl_module, LeakModule) and pl_module.latest is not None:
            leaks = int(pl_module.latest.is_leak.sum())
            self.findings.warn(trainer, overfit(pl_module.history, leaks))


def overfit(history: Sequence[Mapping[str, Any]], leaks: int) -> Finding | None:
    """Judge whether fewer of `leaks` leaks are found while the training loss falls.

    The latest checks count in which the loss fell each time and the true-positive rate at the
    smallest measurable false-positive rate never rose: at least CHECKS of them, and a fall of the
    rate that so few leaks do not give by luck.
    """
    losses: list[float] = []
    rates: list[float] = []
    for row in reversed(history):
        loss, rate = row[log_names.TRAIN_LOSS], row.get(log_names.VAL_TPR_LEAST_FPR)
        if rate is None or (losses and not (loss > losses[-1] and rate >= rates[-1])):
            break
        losses.append(loss)
        rates.append(rate)
    if len(rates) < CHECKS or rates[-1] - rates[0] <= BEYOND_NOISE * _error(rates, leaks):
        return None
    return Finding(
        "overfit",
        f"train loss fell in {len(losses)} checks in a row ({losses[-1]:.3f} to {losses[0]:.3f}) "
        "while the leaks found at the smallest measurable false-alarm rate fell too "
        f"({rates[-1]:.3f} to {rates[0]:.3f}): the network memorises the training recordings. "
        "Raise network.dropout, augment.eq_db or optimizer.weight_decay, or bring more recordings.",
    )


def _error(rates: Sequence[float], leaks: int) -> float:
    """Standard error of the difference of the first and the last rate, were they equal."""
    common = (rates[0] + rates[-1]) / 2
    return float((2 * common * (1 - common) / max(1, leaks)) ** 0.5)
