import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import optuna
import pytest
import torch
from optuna.trial import TrialState
from torch.utils.data import DataLoader

from leakdet.config import SearchParam, TrainConfig, TuneConfig
from leakdet.core.errors import InputError, LeakdetError
from leakdet.storage.opening import open_labelled, open_split
from leakdet.storage.views import SplitView, pooled
from leakdet.training import log_names
from leakdet.tuning.objective import CheckReporter, trial_folds
from leakdet.tuning.study import trial_folder


def both(store: Path) -> SplitView:
    return pooled([open_labelled(store, name) for name in ("train", "val")])


def test_every_recording_of_train_and_val_validates_once_and_sites_stay_whole(
    demo_store: Path,
) -> None:
    folds = trial_folds(demo_store, both(demo_store), 3, seed=0)
    known = [open_split(demo_store, name).recording_ids for name in ("train", "val")]
    validated = np.concatenate([val.recording_ids for _, val in folds])
    assert sorted(validated) == sorted(np.concatenate(known))
    for train, val in folds:
        assert not set(train.groups["site"]) & set(val.groups["site"])
        assert train.recordings + val.recordings == len(validated)


def test_trials_are_compared_on_the_same_folds(demo_store: Path) -> None:
    ids = [
        [
            val.recording_ids.tolist()
            for _, val in trial_folds(demo_store, both(demo_store), 2, seed=seed)
        ]
        for seed in (3, 3, 4)
    ]
    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize(
    ("leaks", "folds", "said"),
    [
        (6, 30, "cannot make 30 folds"),
        (6, 8, r"fill only \d of 8 folds"),
        (2, 4, r"2 leaks and 10 others, "),
    ],
)
def test_more_folds_than_can_be_filled_are_refused(
    write_store: Callable[..., Path], planted: Callable[..., Any], leaks: int, folds: int, said: str
) -> None:
    made = [planted("leak" if seed < leaks else "other", seed) for seed in range(12)]
    store = write_store(train=made[::2], val=made[1::2])
    with pytest.raises(InputError, match=said):
        trial_folds(store, both(store), folds, seed=0)


Check = Callable[..., None]


class Pruner(optuna.pruners.BasePruner):
    """Prunes at the first step from which it is asked to."""

    def __init__(self, step: int) -> None:
        self.step = step

    def prune(self, study: optuna.Study, trial: optuna.trial.FrozenTrial) -> bool:
        return trial.last_step is not None and trial.last_step >= self.step


def reported(study: optuna.Study) -> list[float]:
    values = study.trials[0].intermediate_values
    assert list(values) == list(range(len(values)))
    return list(values.values())


@pytest.mark.parametrize(
    ("maximises", "expected"), [(True, [0.2, 0.9, 0.9, 0.95]), (False, [0.2, 0.2, 0.2, 0.2])]
)
def test_the_best_so_far_is_reported_and_single_checks_are_kept(
    check: Check, maximises: bool, expected: list[float]
) -> None:
    study = optuna.create_study(pruner=optuna.pruners.NopPruner())
    reporter = CheckReporter(study.ask(), "recording_f1", maximises)
    for value in (0.2, 0.9, 0.4, 0.95):
        check(reporter, value)
    assert reported(study) == expected
    assert [one.value for one in reporter.checks] == [0.2, 0.9, 0.4, 0.95]


def test_equal_checks_are_told_apart_as_training_does(check: Check) -> None:
    """The AUROC that breaks ties between trials is that of the weights that are kept."""
    reporter = CheckReporter(optuna.create_study().ask(), "recording_f1", True, prunes=False)
    for f1, rank, auroc in (
        (0.8, 0.8004, 0.81),
        (0.9, 0.9003, 0.92),
        (0.9, 0.9005, 0.94),
        (0.9, 0.9005, 0.95),
    ):
        check(reporter, f1, rank, auroc)
    assert reporter.counted_check.auroc == 0.94


def test_under_a_fixed_number_of_passes_the_last_finite_check_counts(check: Check) -> None:
    reporter = CheckReporter(optuna.create_study().ask(), "recording_f1", True, prunes=False)
    for f1 in (0.9, 0.7, math.nan):
        check(reporter, f1)
    assert reporter.counted_check.value == 0.9
    reporter.last_counts = True
    assert reporter.counted_check.value == 0.7


def test_a_check_prunes_but_a_nan_does_not(check: Check) -> None:
    study = optuna.create_study(direction="maximize", pruner=Pruner(1))
    reporter = CheckReporter(study.ask(), "recording_f1", True)
    check(reporter, 0.3)
    check(reporter, math.nan)
    with pytest.raises(optuna.TrialPruned):
        check(reporter, 0.4)
    assert reported(study) == [0.3, 0.3, 0.4]


def test_a_reporter_that_does_not_prune_reports_nothing(check: Check) -> None:
    study = optuna.create_study(pruner=Pruner(0))
    reporter = CheckReporter(study.ask(), "recording_f1", True, prunes=False)
    check(reporter, 0.3)
    assert reported(study) == []
    assert len(reporter.checks) == 1


def test_without_a_finite_check_there_is_no_best(check: Check) -> None:
    reporter = CheckReporter(optuna.create_study().ask(), "recording_f1", True, prunes=False)
    check(reporter, math.nan)
    with pytest.raises(LeakdetError, match=r"never a finite number .*1 validation"):
        _ = reporter.counted_check


class Scripted(pl.LightningModule):
    """Logs the next F1 at each validation check."""

    def __init__(self, f1: list[float]) -> None:
        super().__init__()
        self.f1, self.weight = iter(f1), torch.nn.Parameter(torch.zeros(1))

    def training_step(self, batch: torch.Tensor) -> torch.Tensor:
        return self.weight.sum()

    def validation_step(self, batch: torch.Tensor) -> None:
        if not self.trainer.sanity_checking:
            self.log(log_names.VAL_F1, next(self.f1))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.1)


def test_lightning_reports_each_of_several_checks_in_an_epoch(tmp_path: Path) -> None:
    study = optuna.create_study(direction="maximize", pruner=Pruner(3))
    reporter = CheckReporter(study.ask(), "recording_f1", True)
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=9,
        val_check_interval=0.5,
        callbacks=[reporter],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
    )
    samples = DataLoader(torch.zeros(4, 1), batch_size=1)
    one = DataLoader(torch.zeros(1, 1), batch_size=1)
    with pytest.raises(optuna.TrialPruned):
        trainer.fit(Scripted([0.5, 0.25, 0.75, 0.5, 1.0]), samples, one)
    reporter.check_pruned()  # of one device: nothing left to tell
    assert [one.value for one in reporter.checks] == [0.5, 0.25, 0.75, 0.5]
    assert reported(study) == [0.5, 0.5, 0.75, 0.75]


Settings = Callable[..., TuneConfig]
Tuned = Callable[..., optuna.Study]


def states(study: optuna.Study) -> list[TrialState]:
    return [trial.state for trial in study.trials]


def test_every_check_is_reported_once_and_the_sanity_check_never(
    settings: Settings, tuned: Tuned
) -> None:
    study = tuned(settings(n_trials=2, pruner="none"))
    for trial in study.trials:
        assert sorted(trial.intermediate_values) == [0, 1, 2, 3, 4]
        assert trial.value == max(trial.intermediate_values.values())


def test_the_best_check_counts_not_the_last(settings: Settings, tuned: Tuned) -> None:
    study = tuned(settings(n_trials=1), lambda config: [0.2, 0.9, 0.4])
    assert study.trials[0].value == 0.9


def test_repeats_use_other_seeds_and_give_their_mean(settings: Settings, tuned: Tuned) -> None:
    study = tuned(settings(n_trials=1, repeats=3), lambda config: [0.1 * (config.seed + 1)])
    assert study.trials[0].value == pytest.approx(0.2)
    assert study.trials[0].user_attrs["trainings"] == pytest.approx([0.1, 0.2, 0.3])


def test_folds_are_trained_in_each_repeat_and_give_their_mean(
    settings: Settings, tuned: Tuned
) -> None:
    config = settings(n_trials=1, repeats=2, folds=3)
    study = tuned(config, lambda config: [0.1 * (config.seed + 1)])
    assert study.trials[0].user_attrs["trainings"] == pytest.approx(
        [0.1, 0.11, 0.12, 0.2, 0.21, 0.22]
    )
    assert study.trials[0].value == pytest.approx(0.16)
    logs = sorted(trial_folder(config.tune.folder, 0).rglob("log.txt"))
    assert [path.parent.name for path in logs] == ["fold-0", "fold-1", "fold-2"] * 2


def test_equal_parameters_are_trained_once(settings: Settings, tuned: Tuned) -> None:
    space = {"batch": SearchParam(setting="data.batch_size", kind="categorical", choices=[8, 16])}
    trained = []

    def curve(training: TrainConfig) -> list[float]:
        trained.append(training.data.batch_size)
        return [training.data.batch_size / 100]

    study = tuned(settings(n_trials=6, search=space, sampler="random"), curve)
    assert sorted(trained) == [8, 16]
    assert [t.value for t in study.trials] == [t.params["batch"] / 100 for t in study.trials]


def test_one_nan_does_not_prune(settings: Settings, tuned: Tuned) -> None:
    study = tuned(
        settings(n_trials=8, n_warmup=0, n_min_trials=1), lambda config: [float("nan"), 0.5, 0.6]
    )
    assert states(study) == [TrialState.COMPLETE] * 8
    assert study.best_value == 0.6


def test_infinity_is_no_result(settings: Settings, tuned: Tuned) -> None:
    study = tuned(settings(n_trials=1), lambda config: [float("inf")])
    assert states(study) == [TrialState.FAIL]
