"""The live table: a line as each trial ends, plain text, whole lines, so that several workers share a screen."""

import sys
import time
from statistics import mean
from typing import TextIO

import optuna
from optuna.trial import FrozenTrial, TrialState

from leakdet.config import TuneSettings
from leakdet.tuning.trials import CHECKS, REASON, finished, ranked

COLUMNS = ("trial", "state", "value", "best", "checks", "saved", "trials/h", "left")
WIDTHS = (7, 9, 9, 16, 7, 7, 9, 9)


def checks_saved(trials: list[FrozenTrial]) -> int:
    """Validation checks that pruning saved, against the mean length of the trials that ran to their own end."""
    whole = [int(t.user_attrs.get(CHECKS, 0)) for t in trials if t.state == TrialState.COMPLETE]
    if not whole:
        return 0
    pruned = [int(t.user_attrs.get(CHECKS, 0)) for t in trials if t.state == TrialState.PRUNED]
    return round(sum(max(0.0, mean(whole) - length) for length in pruned))


class TrialTable:
    """Writes to the screen as it was when the worker began: a trial's own output goes into its log."""

    def __init__(self, tune: TuneSettings, out: TextIO | None = None) -> None:
        self.tune, self.out = tune, out or sys.stdout
        self._started = time.monotonic()
        self._finished_before: int | None = None

    def head(self, study: optuna.Study) -> None:
        self._finished_before = len(finished(study.get_trials(deepcopy=False)))
        if self.tune.worker == 0:
            self._print(COLUMNS)

    def row(self, study: optuna.Study, number: int) -> None:
        trials = study.get_trials(deepcopy=False)
        trial, done = trials[number], len(finished(trials))
        best = ranked(trials, self.tune.maximises)
        new = done - (self._finished_before or 0)
        per_hour = new / max(1e-9, time.monotonic() - self._started) * 3600
        left_s = (self.tune.n_trials - done) / per_hour * 3600 if per_hour > 0 else float("nan")
        cells = (
            f"{number}",
            trial.state.name.lower(),
            "-" if trial.value is None else f"{trial.value:.4f}",
            f"{best[0].value:.4f} (trial {best[0].number})" if best else "-",
            str(trial.user_attrs.get(CHECKS, 0)),
            str(checks_saved(trials)),
            f"{per_hour:.0f}",
            "-" if per_hour <= 0 else f"{left_s:.0f} s",
        )
        self._print(cells)
        if trial.state == TrialState.FAIL:
            self.say(f"        failed: {trial.user_attrs.get(REASON, 'no reason was recorded')}")

    def _print(self, cells: tuple[str, ...]) -> None:
        self.say(" ".join(cell.rjust(width) for cell, width in zip(cells, WIDTHS, strict=True)))

    def say(self, text: str) -> None:
        self.out.write(text + "\n")
        self.out.flush()
