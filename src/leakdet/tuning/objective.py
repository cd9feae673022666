"""The value of a trial: the mean over its trainings (repeats x folds) of their best checks."""

import math
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from statistics import mean

import optuna
from lightning.pytorch.callbacks import Callback
from optuna.trial import Trial

from leakdet.config import TrainConfig, TuneConfig
from leakdet.tuning.pruning_callback import CheckReporter
from leakdet.tuning.space import draw, settings_of, with_settings
from leakdet.tuning.trials import (
    AUROC,
    CHECKS,
    CONFUSION,
    COUNTS,
    LEAK_SHARE,
    same_parameters,
    trial_folder,
)

TrainFold = Callable[[Path, TrainConfig, Sequence[Callback], int], object]
ToYaml = Callable[[TrainConfig, str], str]


class Objective:
    """Trains a trial and returns its value.

    `train(folder, config, callbacks, fold)` fits one configuration; `to_yaml(config, note)` writes
    one as an experiment.
    """

    def __init__(
        self, config: TuneConfig, study: optuna.Study, train: TrainFold, to_yaml: ToYaml
    ) -> None:
        self.tune, self.search, self.study = config.tune, config.search, study
        self.base = config.training()
        self.train, self.to_yaml = train, to_yaml

    def __call__(self, trial: Trial) -> float:
        """Raises `optuna.TrialPruned`, and whatever ends a training."""
        drawn = draw(trial, self.search)
        twin = (
            same_parameters(self.study, drawn, trial.number) if self.tune.skip_duplicates else None
        )
        if twin is not None and twin.value is not None:
            trial.set_user_attr("duplicate_of", twin.number)
            for name in (AUROC, CONFUSION, LEAK_SHARE):
                trial.set_user_attr(name, twin.user_attrs.get(name))
            return twin.value
        config = with_settings(self.base, settings_of(self.search, drawn))
        folder = trial_folder(self.tune.folder, trial.number)
        folder.mkdir(parents=True, exist_ok=True)
        note = f"study {self.tune.study}, trial {trial.number}"
        (folder / "config.yaml").write_text(self.to_yaml(config, note), encoding="utf-8")
        reporters: list[CheckReporter] = []
        try:
            self._train_all(trial, config, folder, reporters)
        finally:
            trial.set_user_attr(CHECKS, sum(len(reporter.checks) for reporter in reporters))
        return _value(trial, reporters)

    def _train_all(
        self, trial: Trial, config: TrainConfig, folder: Path, reporters: list[CheckReporter]
    ) -> None:
        """Train every fold of every repeat.

        Wilcoxon's pruner compares whole trainings, the others the checks of the first training.
        """
        between = self.tune.pruner == "wilcoxon"
        for number in range(self.tune.trainings):
            by_check = number == 0 and not between
            reporter = CheckReporter(trial, self.tune.objective, self.tune.maximises, by_check)
            reporters.append(reporter)
            self._train_once(config, folder, number, reporter)
            reporter.check_pruned()
            if between:
                trial.report(reporter.counted_check.value, number)
                if trial.should_prune():
                    raise optuna.TrialPruned

    def _train_once(
        self, config: TrainConfig, folder: Path, number: int, reporter: CheckReporter
    ) -> None:
        repeat, fold = divmod(number, self.tune.folds)
        inside = folder
        if self.tune.repeats > 1:
            inside /= f"repeat-{repeat}"
        if self.tune.folds > 1:
            inside /= f"fold-{fold}"
        inside.mkdir(parents=True, exist_ok=True)
        with (
            (inside / "log.txt").open("a", encoding="utf-8") as log,
            redirect_stdout(log),
            redirect_stderr(log),
        ):
            self.train(inside, replace(config, seed=config.seed + repeat), [reporter], fold)


def _value(trial: Trial, reporters: Sequence[CheckReporter]) -> float:
    best = [reporter.counted_check for reporter in reporters]
    trial.set_user_attr("trainings", [check.value for check in best])
    auroc = mean(check.auroc for check in best)
    trial.set_user_attr(AUROC, auroc if math.isfinite(auroc) else None)
    share = mean(reporter.leak_share for reporter in reporters)
    trial.set_user_attr(LEAK_SHARE, share if math.isfinite(share) else None)
    counts = [sum(numbers) for numbers in zip(*(check.confusion for check in best), strict=True)]
    if all(map(math.isfinite, counts)):  # over all trainings, as folds together make up val
        trial.set_user_attr(CONFUSION, dict(zip(COUNTS, map(int, counts), strict=True)))
    return mean(check.value for check in best)
