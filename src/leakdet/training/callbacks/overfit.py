"""Does the network learn the training recordings by heart? Train loss against leaks found at the lowest false-alarm rate."""

from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback

from leakdet.training.callbacks.findings import Findings
from leakdet.training.diagnostics import overfit
from leakdet.training.module import LeakModule


class Overfit(Callback):
    """Says what `detection.diagnostics.overfit` finds."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.train_losses: list[float] = []
        self.tprs: list[float | None] = []

    def on_validation_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if (
            trainer.sanity_checking
            or not isinstance(pl_module, LeakModule)
            or pl_module.latest is None
        ):
            return
        check = pl_module.latest
        self.train_losses = [*self.train_losses, check.train_loss[0]][-8:]
        self.tprs = [*self.tprs, check.tpr_at_least_fpr][-8:]
        self.findings.say(trainer, overfit(self.train_losses, self.tprs))

    def state_dict(self) -> dict[str, Any]:
        return {"train_losses": self.train_losses, "tprs": self.tprs}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.train_losses, self.tprs = list(state_dict["train_losses"]), list(state_dict["tprs"])
