"""Early stopping: no better check by `select`, ties broken by loss, or a rising loss beside it."""

import math
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback, EarlyStopping

from leakdet.config import TrainerFlags
from leakdet.core.messages import LOG
from leakdet.training import log_names
from leakdet.training.module import LeakModule
from leakdet.training.validation import Selection

RISEN = 1.01  # times the lowest loss; below this the loss counts as level


class SelectionStop(EarlyStopping):
    """EarlyStopping that gives its reason and remains stopped.

    A run that is resumed after its stop goes on only with more patience.
    """

    def __init__(self, patience: int, flags: TrainerFlags, selection: Selection) -> None:
        monitor = log_names.VAL_RANK if selection.name == "f1" else log_names.VAL_SELECTION
        super().__init__(monitor, patience=patience, mode="max", check_finite=True, strict=True)
        self.flags, self.selection = flags, selection
        self._reason_given = False

    @property
    def state_key(self) -> str:
        # the name under which checkpoints have it
        return super().state_key.replace(type(self).__name__, "F1Stop")

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
        if isinstance(pl_module, LeakModule) and self.selection.name == "f1":
            best = f" (best {max(row[log_names.VAL_F1] for row in pl_module.history):.3f})"
        waited = self.flags.span(self.wait_count)
        LOG.info(f"stopped  no better {self.selection.words} for {waited}{best}")


class LossStop(Callback):
    """Stops after `patience` validation checks in a row with a risen loss and none better.

    Better by F1 itself, or by the rank of another `select`.
    """

    def __init__(self, patience: int, flags: TrainerFlags, selection: Selection) -> None:
        self.patience, self.flags, self.selection = patience, flags, selection
        self.monitor = log_names.VAL_F1 if selection.name == "f1" else log_names.VAL_SELECTION
        self.waited = 0
        self.lowest = float("inf")
        self.best = -math.inf

    def on_train_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if self.waited >= self.patience:
            trainer.should_stop = True

    def on_validation_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if trainer.sanity_checking:
            return
        loss = float(trainer.callback_metrics[log_names.VAL_LOSS])
        if self.update(loss, float(trainer.callback_metrics[self.monitor])):
            trainer.should_stop = True
            if trainer.is_global_zero:
                best = f" (best {self.best:.3f})" if self.selection.name == "f1" else ""
                LOG.info(
                    f"stopped  {log_names.VAL_LOSS} has risen for {self.flags.span(self.waited)} "
                    f"(lowest {self.lowest:.4f}, now {loss:.4f}) without a better "
                    f"{self.selection.words}{best}"
                )

    def update(self, loss: float, value: float) -> bool:
        """Count a check in; True when it is time to stop."""
        rising = loss > RISEN * self.lowest and value <= self.best
        fallen = loss < self.lowest or value > self.best
        self.waited = self.waited + 1 if rising else 0 if fallen else self.waited
        self.lowest, self.best = min(self.lowest, loss), max(self.best, value)
        return self.waited >= self.patience

    def state_dict(self) -> dict[str, Any]:
        return {"waited": self.waited, "lowest": self.lowest, "best_f1": self.best}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.waited, self.lowest = state_dict["waited"], state_dict["lowest"]
        self.best = state_dict["best_f1"]
