"""Samplers and pruners by their settings."""

import random
import warnings

import optuna
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial

from leakdet.config import TrainerFlags, TuneConfig, TuneSettings


def make_sampler(tune: TuneSettings, number: int) -> BaseSampler:
    """The sampler of trial `number`.

    Its draws depend on the seed, the number and the history only: a study that was stopped goes on
    as if it had not been, and no two workers draw the same.
    """
    seed = random.Random(f"{tune.seed}/{number}").randrange(2**31)
    startup = tune.n_startup_trials
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        match tune.sampler:
            case "tpe":
                return optuna.samplers.TPESampler(
                    seed=seed,
                    n_startup_trials=startup,
                    multivariate=True,
                    group=True,
                    constant_liar=tune.workers > 1,
                )
            case "gp":
                return optuna.samplers.GPSampler(
                    seed=seed, n_startup_trials=max(1, startup), warn_independent_sampling=False
                )
            case "cmaes":
                return optuna.samplers.CmaEsSampler(
                    seed=seed, n_startup_trials=startup, warn_independent_sampling=False
                )
            case _:  # the grid's combinations are enqueued
                return optuna.samplers.RandomSampler(seed=seed)


def make_pruner(config: TuneConfig) -> BasePruner:
    """The pruner by its settings, made anew each time: a study does not store it."""
    tune = config.tune
    common = {
        "n_startup_trials": tune.n_min_trials,
        "n_warmup_steps": tune.n_warmup,
        "n_min_trials": tune.n_min_trials,
    }
    least = max(1, tune.n_warmup)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        match tune.pruner:
            case "median":
                return optuna.pruners.MedianPruner(**common)
            case "percentile":
                return optuna.pruners.PercentilePruner(tune.percentile, **common)
            case "asha":
                return Patient(
                    optuna.pruners.SuccessiveHalvingPruner(
                        least, reduction_factor=tune.reduction_factor
                    ),
                    tune,
                )
            case "hyperband":
                most = max(least + 1, TrainerFlags.of(config.trainer).max_epochs)
                return Patient(
                    optuna.pruners.HyperbandPruner(least, most, tune.reduction_factor), tune
                )
            case "wilcoxon":
                return optuna.pruners.WilcoxonPruner(n_startup_steps=1)
            case _:
                return optuna.pruners.NopPruner()


class Patient(BasePruner):
    """A pruner that waits for `n_warmup` checks and for `n_min_trials` others at that check."""

    def __init__(self, pruner: BasePruner, tune: TuneSettings) -> None:
        self.pruner, self.n_warmup, self.n_min_trials = pruner, tune.n_warmup, tune.n_min_trials

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        step = trial.last_step
        if step is None or step < self.n_warmup:
            return False
        others = sum(
            step in other.intermediate_values and other.number != trial.number
            for other in study.get_trials(deepcopy=False)
        )
        # The pruner is asked in any case: successive halving records the rungs of each trial.
        return self.pruner.prune(study, trial) and others >= self.n_min_trials
