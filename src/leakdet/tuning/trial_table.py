"""The live table: one printed line as each trial ends, which several workers share."""

import time
from collections.abc import Sequence
from statistics import mean

import optuna
from optuna.trial import FrozenTrial, TrialState

from leakdet._messages import LOG
from leakdet.config import TuneSettings
from leakdet.tuning.trials import CHECKS, REASON, finished, ranked

COLUMNS = ("trial", "state", "value", "best", "checks", "saved", "trials/h", "left")
WIDTHS = (7, 9, 9, 16, 7, 7, 9, 9)


def checks_saved(trials: Sequence[FrozenTrial]) -> int:
    """Validation checks that pruning saved, against the mean length of the complete trials."""
    whole = [int(t.user_attrs.get(CHECKS, 0)) for t in trials if t.state == TrialState.COMPLETE]
    if not whole:
        return 0
    pruned = [int(t.user_attrs.get(CHECKS, 0)) for t in trials if t.state == TrialState.PRUNED]
    return round(sum(max(0.0, mean(whole) - length) for length in pruned))


class TrialTable:
    """Prints the lines of one worker; its rate counts the trials of all since the worker began."""

    def __init__(self, tune: TuneSettings) -> None:
        self.tune = tune
        self._started = time.monotonic()
        self._finished_before = 0

    def head(self, study: optuna.Study) -> None:
        self._finished_before = len(finished(study.get_trials(deepcopy=False)))
        if self.tune.worker == 0:
            _print(COLUMNS)

    def row(self, study: optuna.Study, number: int) -> None:
        trials = study.get_trials(deepcopy=False)
        trial, done = trials[number], len(finished(trials))
        best = ranked(trials, self.tune.maximises)
        new, hours = done - self._finished_before, (time.monotonic() - self._started) / 3600
        left_s = (self.tune.n_trials - done) * hours * 3600 / new if new > 0 else None
        cells = (
            f"{number}",
            trial.state.name.lower(),
            "-" if trial.value is None else f"{trial.value:.4f}",
            f"{best[0].value:.4f} (trial {best[0].number})" if best else "-",
            str(trial.user_attrs.get(CHECKS, 0)),
            str(checks_saved(trials)),
            f"{new / max(1e-9, hours):.0f}",
            "-" if left_s is None else f"{left_s:.0f} s",
        )
        _print(cells)
        if trial.state == TrialState.FAIL:
            LOG.info(f"        failed: {trial.user_attrs.get(REASON, 'no reason was recorded')}")


def _print(cells: Sequence[str]) -> None:
    LOG.info(" ".join(cell.rjust(width) for cell, width in zip(cells, WIDTHS, strict=True)))
