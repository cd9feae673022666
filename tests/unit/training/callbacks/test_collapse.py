"""Each kind of collapsed prediction is told by its own finding."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import pytest

from leakdet.config import DataConfig, DecisionConfig, LossConfig, NetworkConfig, TrainConfig
from leakdet.loading.train_loader import TrainLoader
from leakdet.training.callbacks.collapse import collapse
from leakdet.training.sample_summary import SampleSummary
from leakdet.training.validation_result import ValidationResult

Fitted = Callable[..., pl.Trainer]
Warned = Callable[[Path], list[str]]
FOUR = ("trainer.max_epochs=4", "loss_patience=0")
CONFIG = TrainConfig(loss=LossConfig(aux_weight=1.0))
HEALTHY = SampleSummary(100, 0.5, 0.3, 0.5, 0.9, (10,) * 10)
RESULT = ValidationResult(
    epoch=0,
    step=1,
    f1=0.9,
    auroc=0.95,
    threshold=0.5,
    confusion=(18, 2, 2, 18),
    train_loss=(0.6, 0.5, 0.2),
    val_loss=(0.7, 0.5, 0.2),
    leaks_drawn=0.5,
    scores=np.linspace(0.1, 0.4, 40),
    is_leak=np.arange(40) >= 20,
    samples=HEALTHY,
    window_prob=np.linspace(0.1, 0.4, 40),
    windows_per_recording=np.ones(40, np.int64),
)


def kinds(samples: SampleSummary = HEALTHY, aux_loss: float = 0.2, **other: float) -> list[str]:
    result = replace(RESULT, samples=samples, val_loss=(1.0, 0.5, aux_loss), **other)
    return [finding.kind for finding in collapse(result, CONFIG)]


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ([], kinds()),
        (
            ["constant"],
            kinds(SampleSummary(100, 0.5, 0.001, 1.0, None, (0,) * 10), f1=0.0, auroc=0.5),
        ),
        (["inverted"], kinds(auroc=0.1, f1=0.67)),
        (["auxiliary"], kinds(aux_loss=1.6)),
        (["one_class"], kinds(SampleSummary(100, 0.2, 0.1, 0.0, 0.9, (0,) * 10), f1=0.05)),
        (["low_f1"], kinds(f1=0.05)),
        (["heads"], kinds(SampleSummary(100, 0.5, 0.3, 0.5, 0.2, (10,) * 10))),
        ([], kinds(auroc=0.4)),  # with so few recordings that is chance
    ],
)
def test_a_fault_is_told_by_its_own_finding(expected: list[str], found: list[str]) -> None:
    assert found == expected


CONSTANT = SampleSummary(100, 0.5, 0.001, 1.0, None, (0,) * 10)
ONE_CLASS = SampleSummary(100, 0.2, 0.1, 0.0, 0.9, (0,) * 10)


@pytest.mark.parametrize(
    ("result", "advice", "settings"),
    [
        (
            replace(RESULT, samples=CONSTANT),
            "network.standardise=true",
            {"network": NetworkConfig(standardise=False)},
        ),
        (replace(RESULT, samples=CONSTANT), "find_lr=true", {"find_lr": False}),
        (
            replace(RESULT, samples=ONE_CLASS),
            "data.sampling=balanced",
            {"data": DataConfig(sampling="natural")},
        ),
        (
            replace(RESULT, f1=0.05),
            "max_f1 fits it",
            {"decision": DecisionConfig(policy="max_fpr")},
        ),
    ],
)
def test_advice_names_no_setting_that_is_set(
    result: ValidationResult, advice: str, settings: dict[str, Any]
) -> None:
    followed = TrainConfig(
        data=DataConfig(sampling="balanced"),
        network=NetworkConfig(standardise=True),
        decision=DecisionConfig(policy="max_f1"),
        find_lr=True,
    )
    assert advice not in next(collapse(result, followed)).text
    assert advice in next(collapse(result, replace(followed, **settings))).text


def test_a_constant_network(
    fitted: Fitted, warned: Warned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from leakdet.detection.networks import Paper

    plain = Paper.features
    monkeypatch.setattr(Paper, "features", lambda self, x: plain(self, x) * 0)
    fitted(tmp_path, *FOUR)
    assert warned(tmp_path) == ["constant"]


def test_inverted_labels(
    fitted: Fitted, warned: Warned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = TrainLoader.__iter__

    def inverted(self: TrainLoader) -> Any:
        return (batch._replace(class_id=1 - batch.class_id) for batch in plain(self))

    monkeypatch.setattr(TrainLoader, "__iter__", inverted)
    fitted(tmp_path, "trainer.max_epochs=5", "loss_patience=0")
    assert warned(tmp_path) == ["inverted"]
