"""What a trial's validation checks report to the study: optuna-integration's pruning callback, made strict."""

import math

import lightning.pytorch as pl
import optuna
from optuna_integration import PyTorchLightningPruningCallback

from leakdet.errors import LeakdetError, SettingsError
from leakdet.training import log_names

MONITORED = {
    "recording_f1": log_names.VAL_F1,
    "recording_auroc": log_names.VAL_AUROC,
    "loss": log_names.VAL_LOSS,
}


class CheckReporter(PyTorchLightningPruningCallback):  # type: ignore[misc]  # optuna_integration exports untyped names
    """Keeps every validation check; reports the best so far under steps 0, 1, ..., one per check; the sanity check is none.

    The best so far is what the trial would be worth if it ended here, and pruners compare like with like. Of single checks
    they do not: F1 of some recordings jumps from check to check, and Optuna's percentile pruners compare the best of the one
    trial with whatever the others had at that step.

    Optuna's own reports by epoch, so that several checks in an epoch are lost; it only warns about a metric that is
    not there; and it prunes at a NaN. Here the first is an error, and a NaN is reported but never prunes.
    """

    def __init__(
        self, trial: optuna.Trial, objective: str, maximises: bool, prunes: bool = True
    ) -> None:
        super().__init__(trial, MONITORED[objective])
        self.maximises, self.prunes = maximises, prunes
        self.checks: list[float] = []
        self.ranks: list[float] = []  # what training chooses its checkpoint by, for ties of F1
        self.aurocs: list[float] = []

    def on_fit_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if trainer.world_size > 1:
            raise SettingsError(
                "tune trains a trial on one device; run several workers (tune.workers) instead of DDP."
            )

    def on_validation_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if trainer.sanity_checking:
            return
        found = trainer.callback_metrics
        if self.monitor not in found:
            raise LeakdetError(
                f"{self.monitor} is not logged at validation; there are {', '.join(sorted(found))}."
            )
        value = float(found[self.monitor])
        self.checks.append(value)
        self.ranks.append(float(found.get(log_names.VAL_RANK, 0.0)))
        self.aurocs.append(float(found.get(log_names.VAL_AUROC, math.nan)))
        if self.prunes:
            step = len(self.checks) - 1
            self._trial.report(self._best_so_far, step)
            if math.isfinite(value) and self._trial.should_prune():
                raise optuna.TrialPruned(f"pruned after {step + 1} validation checks")

    @property
    def _best_so_far(self) -> float:
        finite = [value for value in self.checks if math.isfinite(value)]
        if not finite:
            return math.nan
        return max(finite) if self.maximises else min(finite)

    @property
    def best_check(self) -> int:
        """The best finite check: of equal ones that of the best rank, whose weights are kept, then the first.

        Raises `LeakdetError` without any.
        """
        finite = [index for index, value in enumerate(self.checks) if math.isfinite(value)]
        if not finite:
            raise LeakdetError(
                f"{self.monitor} was never a finite number in {len(self.checks)} validation checks."
            )
        sign = 1 if self.maximises else -1
        return max(finite, key=lambda index: (sign * self.checks[index], self.ranks[index]))
