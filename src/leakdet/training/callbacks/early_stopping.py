"""Early stopping: no better recording F1 (ties broken by the loss), or a rising loss beside it."""

from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback, EarlyStopping

from leakdet._messages import LOG
from leakdet.config import TrainerFlags
from leakdet.training import log_names
from leakdet.training.module import LeakModule

RISEN = 1.01  # times the lowest loss; below this the loss counts as level


class F1Stop(EarlyStopping):
    """EarlyStopping that gives its reason and remains stopped.

    A run that is resumed after its stop goes on only with more patience.
    """

    def __init__(self, patience: int, flags: TrainerFlags) -> None:
        super().__init__(
            log_names.VAL_RANK, patience=patience, mode="max", check_finite=True, strict=True
        )
        self.flags = flags
        self._reason_given = False

    def on_train_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if self.wait_count >= self.patience:
            trainer.should_stop = True
            self._give_reason(trainer, pl_module)

    def on_train_epoch_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        super().on_train_epoch_end(trainer, pl_module)
        self._give_reason(trainer, pl_module)

    def on_validation_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        super().on_validation_end(trainer, pl_module)
        if not trainer.sanity_checking:
            self._give_reason(trainer, pl_module)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({**state_dict, "patience": self.patience})

    def _give_reason(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if self.wait_count < self.patience or self._reason_given or not trainer.is_global_zero:
            return
        self._reason_given = True
        best = ""
        if isinstance(pl_module, LeakModule):
            best = f" (best {max(row[log_names.VAL_F1] for row in pl_module.history):.3f})"
        LOG.info(f"stopped  no better F1 for {self.flags.span(self.wait_count)}{best}")


class LossStop(Callback):
    """Stops after `patience` validation checks in a row with a risen loss and no better F1."""

    def __init__(self, patience: int, flags: TrainerFlags) -> None:
        self.patience, self.flags = patience, flags
        self.waited = 0
        self.lowest = float("inf")
        self.best_f1 = -1.0

    def on_train_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if self.waited >= self.patience:
            trainer.should_stop = True

    def on_validation_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if trainer.sanity_checking:
            return
        loss = float(trainer.callback_metrics[log_names.VAL_LOSS])
        f1 = float(trainer.callback_metrics[log_names.VAL_F1])
        if self.update(loss, f1):
            trainer.should_stop = True
            if trainer.is_global_zero:
                LOG.info(
                    f"stopped  {log_names.VAL_LOSS} has risen for {self.flags.span(self.waited)} "
                    f"(lowest {self.lowest:.4f}, now {loss:.4f}) without a better F1 (best "
                    f"{self.best_f1:.3f})"
                )

    def update(self, loss: float, f1: float) -> bool:
        """Count a check in; True when it is time to stop."""
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
