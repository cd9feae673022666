"""Validation checks of a trial: recorded, and reported to the pruner by optuna-integration."""

import math
from dataclasses import dataclass
from typing import Any

import lightning.pytorch as pl
import optuna
from optuna_integration import PyTorchLightningPruningCallback

from leakdet.errors import LeakdetError
from leakdet.training import log_names
from leakdet.training.introduction import loss_balance
from leakdet.training.module import LeakModule

MONITORED = {
    "recording_f1": log_names.VAL_F1,
    "recording_auroc": log_names.VAL_AUROC,
    "loss": log_names.VAL_LOSS,
}


@dataclass(frozen=True)
class Check:
    """Scores of one validation check."""

    value: float  # the objective
    rank: float  # what training selects its checkpoint by
    auroc: float
    confusion: tuple[float, ...] = (math.nan,) * 4  # tn, fp, fn, tp of recordings


class CheckReporter(PyTorchLightningPruningCallback):  # type: ignore[misc]  # untyped
    """Records every validation check; with `prunes` the library's callback reports it and prunes.

    Call `check_pruned()` after `Trainer.fit`, as for the library's callback.
    """

    def __init__(
        self, trial: optuna.Trial, objective: str, maximises: bool, prunes: bool = True
    ) -> None:
        super().__init__(BestSoFar(trial, maximises), MONITORED[objective])
        self.maximises, self.prunes = maximises, prunes
        self.checks: list[Check] = []
        self.leak_share = math.nan  # of the loss, by all settings that shift the class balance
        self.last_counts = False  # the last weights are the result, whatever val says

    def on_validation_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if not trainer.sanity_checking:
            logged = trainer.callback_metrics
            selected = log_names.VAL_SELECTION in logged
            rank = log_names.VAL_SELECTION if selected else log_names.VAL_RANK
            keys = (self.monitor, rank, log_names.VAL_AUROC)
            value, rank_value, auroc = (float(logged.get(key, math.nan)) for key in keys)
            counts = tuple(float(logged.get(key, math.nan)) for key in log_names.VAL_CONFUSION)
            self.checks.append(Check(value, rank_value, auroc, counts))
            if isinstance(pl_module, LeakModule):
                self.last_counts = pl_module.config.stop.name == "fixed"
                shares = loss_balance(pl_module.config, pl_module.data)
                self.leak_share = float(shares[list(pl_module.leaks)].sum())
        if self.prunes:
            super().on_validation_end(trainer, pl_module)

    @property
    def counted_check(self) -> Check:
        """The finite check of the weights that are the result.

        That is the best one, of equal ones the best by rank; under stop.name=fixed it is the last.

        Raises `LeakdetError` where none is finite.
        """
        finite = [check for check in self.checks if math.isfinite(check.value)]
        if not finite:
            raise LeakdetError(
                f"{self.monitor} was never a finite number in {len(self.checks)} validation checks."
            )
        if self.last_counts:
            return finite[-1]
        sign = 1 if self.maximises else -1
        return max(finite, key=lambda check: (sign * check.value, check.rank))


class BestSoFar:
    """A trial as the library's callback sees it; reports the best value so far, a step per check.

    The best so far is the trial's value if it ended here. Single checks would mislead the pruners:
    F1 of few recordings jumps, and a percentile pruner compares the best value of one trial with
    the latest values of the others.
    """

    def __init__(self, trial: optuna.Trial, maximises: bool) -> None:
        self._trial, self._best_of = trial, max if maximises else min
        self._values: list[float] = []

    def report(self, value: float, step: int) -> None:
        """Report under the number of the check: `step` is the epoch, which may have several."""
        self._values.append(value)
        finite = [value for value in self._values if math.isfinite(value)]
        best = self._best_of(finite) if finite else math.nan
        self._trial.report(best, len(self._values) - 1)

    def should_prune(self) -> bool:
        """Decide whether to prune; one NaN alone does not."""
        return math.isfinite(self._values[-1]) and bool(self._trial.should_prune())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._trial, name)
