"""When a run has nothing more to gain: no better recording F1 (ties broken by the loss), or a loss that rises beside it."""

from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback, EarlyStopping

from leakdet._messages import LOG
from leakdet.training import log_names as names

RISEN = 1.01  # times the lowest loss: below this it stands still


class F1Stop(EarlyStopping):
    """EarlyStopping that says so and remains stopped: a run that is resumed after its stop goes on only with more patience."""

    _said = False

    def on_train_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if self.wait_count >= self.patience:
            trainer.should_stop = True
            self._say(trainer)

    def on_train_epoch_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        super().on_train_epoch_end(trainer, pl_module)
        self._say(trainer)

    def on_validation_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        super().on_validation_end(trainer, pl_module)
        if not trainer.sanity_checking:
            self._say(trainer)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({**state_dict, "patience": self.patience})

    def _say(self, trainer: "pl.Trainer") -> None:
        if self.wait_count < self.patience or self._said or not trainer.is_global_zero:
            return
        self._said = True
        LOG.info(
            f"stopped  {self.monitor} (the recording F1, ties broken by {names.VAL_LOSS}) has not risen for {self.wait_count} "
            f"checks (best {float(self.best_score):.4f}); patience={self.patience}"
        )


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
                LOG.info(
                    f"stopped  {names.VAL_LOSS} has risen for {self.waited} checks (lowest {self.lowest:.4f}, now {loss:.4f}) "
                    f"while the best F1 stood at {self.best_f1:.4f}; loss_patience={self.patience}"
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
