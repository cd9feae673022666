"""When a run has nothing more to gain: no better recording F1, or a loss that rises while F1 stands still."""

from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback, EarlyStopping

from leakdet.training import names

RISEN = 1.01  # times the lowest loss: below this it stands still


class F1Stop(EarlyStopping):
    """EarlyStopping that remains stopped: a run that is resumed after its stop trains no further epoch."""

    def on_train_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if self.wait_count >= self.patience:
            trainer.should_stop = True


class LossStop(Callback):
    """Stops after `patience` validation checks in a row with a risen loss and no better F1."""

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.waited = 0
        self.lowest = float("inf")
        self.best_f1 = -1.0

    def on_train_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if self.waited >= self.patience:
            trainer.should_stop = True

    def on_validation_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if trainer.sanity_checking:
            return
        loss = float(trainer.callback_metrics[names.VAL_LOSS])
        f1 = float(trainer.callback_metrics[names.VAL_F1])
        if self.heard(loss, f1):
            trainer.should_stop = True
            if trainer.is_global_zero:
                print(
                    f"stopped  {names.VAL_LOSS} has risen for {self.waited} checks (lowest {self.lowest:.4f}, now {loss:.4f}) "
                    f"while the best F1 stood at {self.best_f1:.4f}; loss_patience={self.patience}",
                    flush=True,
                )

    def heard(self, loss: float, f1: float) -> bool:
        """Take note of a check; True when it is time to stop."""
        rising = loss > RISEN * self.lowest and f1 <= self.best_f1
        fallen = loss < self.lowest or f1 > self.best_f1
        self.waited = self.waited + 1 if rising else 0 if fallen else self.waited
        self.lowest, self.best_f1 = min(self.lowest, loss), max(self.best_f1, f1)
        return self.waited >= self.patience

    def state_dict(self) -> dict[str, Any]:
        return {"waited": self.waited, "lowest": self.lowest, "best_f1": self.best_f1}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.waited, self.lowest = state_dict["waited"], state_dict["lowest"]
        self.best_f1 = state_dict["best_f1"]
