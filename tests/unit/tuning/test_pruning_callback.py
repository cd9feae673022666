import math
from collections.abc import Callable
from pathlib import Path

import lightning.pytorch as pl
import optuna
import pytest
import torch
from torch.utils.data import DataLoader

from leakdet.errors import LeakdetError
from leakdet.training import log_names
from leakdet.tuning.pruning_callback import CheckReporter

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
    with pytest.raises(LeakdetError, match="never a finite number in 1 validation checks"):
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
