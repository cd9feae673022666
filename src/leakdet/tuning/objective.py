"""The value of a trial: the mean over its trainings (repeats x folds) of their best checks."""

import math
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

import lightning.pytorch as pl
import optuna
from lightning.pytorch.callbacks import Callback
from optuna.trial import Trial
from optuna_integration import PyTorchLightningPruningCallback

from leakdet.config import TrainConfig, TuneConfig
from leakdet.core.errors import InputError, LeakdetError
from leakdet.evaluation.split_scores import split_group_by
from leakdet.storage.folds import RECORDING, group_keys, hold_out_groups, source_files
from leakdet.storage.opening import open_labelled
from leakdet.storage.store import StoreSplit
from leakdet.storage.views import SplitView, pooled
from leakdet.training import log_names
from leakdet.training.module import LeakModule
from leakdet.training.run_summary import loss_balance
from leakdet.training.settings import needs_val
from leakdet.training.splits import open_splits, require_unmet, started_from, warn_of_start
from leakdet.tuning.space import draw, settings_of, with_settings
from leakdet.tuning.study import (
    AUROC,
    CHECKS,
    CONFUSION,
    COUNTS,
    LEAK_SHARE,
    same_parameters,
    trial_folder,
)


def trial_parts(config: TuneConfig, store: Path) -> Sequence[Sequence[StoreSplit]]:
    """Parts that each fold of a trial trains on and validates with; none where it uses the splits.

    Raises `InputError` where the store cannot be read or divided, or where the model that trials
    start from has met what validates them, before the first trial.
    """
    if config.tune.folds > 1:
        names = ("train", "val")
        both = pooled([open_labelled(store, name, config.labels) for name in names])
        require_unmet(config, both, f"tune.folds={config.tune.folds}")
        return trial_folds(store, both, config.tune.folds, config.seed)
    splits = open_splits(store, config.labels)
    chooses = needs_val(config, splits.val.recordings)
    warn_of_start(started_from(config), store, splits, chooses)
    return [()]


def trial_folds(
    store: Path, view: SplitView, folds: int, seed: int
) -> list[tuple[SplitView, SplitView]]:
    """Train and val part of each fold; every recording of `view`, train and val, validates once.

    Groups by which the store was split stay whole. The folds depend on the seed only, so that
    trials are compared on the same folds.
    """
    groups = group_keys(
        view.groups, split_group_by(store) or [RECORDING], view.recording_ids, "tune.folds"
    )
    is_leak, files = view.is_leak, source_files(view.groups, view.recording_ids)
    parts = []
    for _, rest, held_out in hold_out_groups(groups, is_leak, folds, seed, files):
        if all(0 < is_leak[part].sum() < len(part) for part in (rest, held_out)):
            parts.append((view.take(rest, "train"), view.take(held_out, "val")))
    if len(parts) < folds:  # parts may also be left empty, where groups are few
        leaks = int(is_leak.sum())
        raise InputError(
            f"{store}: tune.folds={folds}, but train and val, {leaks} leaks and "
            f"{len(is_leak) - leaks} others, give {len(parts)} parts with both kinds in them and "
            "in the rest. Ask for fewer folds."
        )
    return parts


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
