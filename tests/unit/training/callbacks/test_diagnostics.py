import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from tests.conftest import healthy_check

from leakdet.config import (
    CallbacksConfig,
    DataConfig,
    DecisionConfig,
    LossConfig,
    NetworkConfig,
    OptimizerConfig,
    TrainConfig,
)
from leakdet.core.errors import LeakdetError
from leakdet.detection.networks import Output
from leakdet.loading.loaders import TrainLoader
from leakdet.training import log_names
from leakdet.training.callbacks import diagnostics
from leakdet.training.callbacks.diagnostics import (
    CHECKS,
    Diagnostics,
    Finding,
    Findings,
    bad_gradients,
    collapse,
    flat_loss,
    head_numbers,
    kinds_in,
    log_numbers,
    low_rate,
    off_chance,
    overfit,
)
from leakdet.training.module import LeakModule
from leakdet.training.validation import SampleSummary, ValidationResult

Fitted = Callable[..., pl.Trainer]
Warned = Callable[[Path], list[str]]
# what the loader and the machine are told of depends on how busy this machine is
ALONE = ("callbacks.loader_wait=false", "callbacks.step_times=false", "callbacks.system_use=false")
FOUR = (*ALONE, "trainer.max_epochs=4", "loss_patience=0")
Rows = list[dict[str, float]]
BROKEN = {
    "learning_rate": ("optimizer.lr=0",),
    "auxiliary": ("loss.aux_weight=50",),
}


def test_a_healthy_run_warns_of_nothing(fitted: Fitted, warned: Warned, tmp_path: Path) -> None:
    fitted(tmp_path, *FOUR)
    assert warned(tmp_path) == []


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_run_gives_its_own_warning(
    kind: str, fitted: Fitted, warned: Warned, tmp_path: Path
) -> None:
    fitted(tmp_path, *FOUR, *BROKEN[kind])
    assert warned(tmp_path) == [kind]


def test_a_kind_is_warned_of_once_also_after_a_resume(
    tmp_path: Path, trainer_and_rows: tuple[pl.Trainer, Rows]
) -> None:
    trainer = trainer_and_rows[0]
    first, second = Finding("gpu", "idle"), Finding("heads", "disagree, epoch 3, twice: really")
    findings = Findings(tmp_path)
    for finding in (first, None, first, second):
        findings.warn(trainer, finding)
    text = (tmp_path / log_names.WARNINGS).read_text()
    assert kinds_in(text) == ["gpu", "heads"]
    resumed = Findings(tmp_path)
    trainer.ckpt_path = "last.ckpt"
    resumed.begin(trainer)
    resumed.warn(trainer, first)
    assert (tmp_path / log_names.WARNINGS).read_text() == text
    fresh = Findings(tmp_path)
    trainer.ckpt_path = None
    fresh.begin(trainer)
    assert fresh.kinds == []


def test_numbers_go_to_every_logger(trainer_and_rows: tuple[pl.Trainer, Rows]) -> None:
    trainer, rows = trainer_and_rows
    log_numbers(trainer, {"a": 1.0})
    assert rows == [{"a": 1.0}]


CONFIG = TrainConfig(loss=LossConfig(aux_weight=1.0))
RESULT = healthy_check()
HEALTHY = RESULT.samples


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
        (["binary_scores"], kinds(scores=np.repeat([0.0, 1.0, 1.0], [18, 20, 2]))),
        ([], kinds(scores=np.repeat([0.0, 1.0], 20))),  # binary, and right
        ([], kinds(auroc=0.4)),  # with so few recordings that is chance
    ],
)
def test_a_fault_is_told_by_its_own_finding(expected: list[str], found: list[str]) -> None:
    assert found == expected


JUDGES = {"rate_watch": "flat_loss", "collapse": "collapse", "overfit": "overfit"}


@pytest.mark.parametrize("off", JUDGES)
def test_a_switch_leaves_out_its_judge_and_no_other(
    off: str,
    tmp_path: Path,
    trainer_and_rows: tuple[pl.Trainer, Rows],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for judge in JUDGES.values():
        finding = Finding(judge, "a fault")
        monkeypatch.setattr(
            diagnostics, judge, lambda *_, f=finding: [f] if f.kind == "collapse" else f
        )
    monkeypatch.setattr(diagnostics, "guessing_loss", lambda _: GUESSING)
    module = Mock(spec=LeakModule, latest=RESULT, history=[], config=CONFIG)
    findings = Findings(tmp_path)
    watch = Diagnostics(findings, CallbacksConfig(**{off: False}))
    for _ in range(CHECKS):
        watch.on_validation_end(trainer_and_rows[0], module)
    assert set(findings.kinds) == {judge for switch, judge in JUDGES.items() if switch != off}


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
    fitted(tmp_path, *ALONE, "trainer.max_epochs=5", "loss_patience=0")
    assert warned(tmp_path) == ["inverted"]


def test_a_badly_scaled_input(
    fitted: Fitted, warned: Warned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from leakdet.detection.networks import InputLayer

    plain = InputLayer.forward
    monkeypatch.setattr(InputLayer, "forward", lambda self, mel: 300 * plain(self, mel))
    fitted(tmp_path, *ALONE, "trainer.max_epochs=1")
    assert warned(tmp_path) == ["first_batch"]


@pytest.mark.parametrize(
    ("loss", "warns"), [(math.log(2), False), (1.2, False), (1.5, True), (0.2, True)]
)
def test_the_first_loss_is_within_a_factor_of_two_of_chance(loss: float, warns: bool) -> None:
    assert (off_chance(loss, math.log(2), 3.0, 1.0, NetworkConfig()) is not None) == warns


@pytest.mark.parametrize(
    ("settings", "input_std", "says", "never"),
    [
        ({"standardise": False}, 20.0, "Set network.standardise=true.", "level_free"),
        (
            {"standardise": False, "input_norm": "none"},
            20.0,
            "network.standardise=true and network.input_norm=level_free.",
            "well scaled",
        ),
        ({}, 20.0, "damaged recordings", "standardise=true"),
        ({}, 1.1, "well scaled", "standardise"),
    ],
)
def test_advice_goes_by_what_is_set_and_measured(
    settings: dict[str, Any], input_std: float, says: str, never: str
) -> None:
    found = off_chance(3.4, math.log(2), 7.0, input_std, NetworkConfig(**settings))
    assert found is not None
    assert says in found.text
    assert never not in found.text


def test_range_and_predicted_mix_of_both_heads() -> None:
    output = Output(torch.tensor([[3.0, -1.0], [0.5, 2.0]]), torch.tensor([-4.0, 1.0]))
    numbers = head_numbers(output, leaks=(0,), both=True)
    assert numbers == {
        "first_batch/lowest_logit": -1.0,
        "first_batch/highest_logit": 3.0,
        "first_batch/lowest_leak_logit": -4.0,
        "first_batch/highest_leak_logit": 1.0,
        "first_batch/predicted_leak_share": 0.5,
        "first_batch/predicted_leak_share_of_leak_head": 0.5,
    }
    only_class = head_numbers(output, leaks=(0,), both=False)
    assert log_names.FIRST_PREDICTED_LEAKS not in only_class


def test_an_exploding_gradient_ends_with_its_cause(
    fitted: Fitted, warned: Warned, tmp_path: Path
) -> None:
    with pytest.raises(LeakdetError, match=r"validation loss is (nan|inf).*Lower optimizer\.lr"):
        fitted(tmp_path, *FOUR, "optimizer.lr=1e30", "optimizer.warmup_epochs=0")
    assert warned(tmp_path) == ["gradient"]


@pytest.mark.parametrize(
    ("norms", "text"),
    [
        ([1.0, 2.0], None),
        ([1.0, math.nan], "1 of 2 gradients"),
        ([1e6, 1e5], "explode"),
        ([1e-9, 0.0], "vanish"),
    ],
)
def test_norms_are_judged_by_their_mean(norms: list[float], text: str | None) -> None:
    finding = bad_gradients(np.array(norms), clipped_at=1.0)
    assert (text in finding.text) if text and finding else finding is None is text


GUESSING = math.log(2)


def test_a_low_rate_is_told_before_the_last_tenth_only() -> None:
    finding = low_rate(9e-7, 0.5)
    assert finding is not None
    assert finding.kind == "learning_rate"
    assert low_rate(9e-7, 0.95) is None
    assert low_rate(1e-6, 0.5) is None


def loss_history(losses: list[float], steps: int = 20) -> list[dict[str, Any]]:
    return [
        {"epoch": float(number), "step": float(steps * number), log_names.TRAIN_CLASS_LOSS: loss}
        for number, loss in enumerate(losses)
    ]


@pytest.mark.parametrize(
    ("losses", "steps", "fires"),
    [
        ([0.693] * 8, 20, True),
        ([0.9, 0.8, 0.7, 0.69, 0.695, 0.694, 0.693, 0.69], 20, True),  # large at first, then flat
        ([2.0] * 8, 20, True),  # above guessing all the time
        ([0.693] * 7, 20, False),  # three of warm-up and four
        ([0.693] * 8, 2, False),  # too few steps to learn anything
        ([0.693] * 5 + [0.66, 0.69, 0.693], 20, False),  # something was learnt
        ([0.6] * 8, 20, True),  # first weights that suit by luck
        ([0.2] * 8, 20, False),  # flat, and learnt
    ],
)
def test_a_loss_that_stays_at_guessing_is_told(
    losses: list[float], steps: int, fires: bool
) -> None:
    config = TrainConfig(optimizer=OptimizerConfig(warmup_epochs=3.0))
    finding = flat_loss(loss_history(losses, steps), GUESSING, config)
    assert (finding is not None) == fires
    if finding:
        assert finding.kind == "flat_loss"
        assert "guessing has 0.693" in finding.text
        assert "find_lr=true" in finding.text


def test_a_training_that_cannot_learn_is_told_once(
    fitted: Callable[..., Any], tmp_path: Path
) -> None:
    """Weights that hardly move: the loss of balanced classes stays at ln 2."""
    still = (
        "optimizer.lr=0",
        "optimizer.min_lr=0",
        "optimizer.warmup_epochs=0",
        "trainer.max_epochs=8",
    )
    more = ("data.batch_size=8", "network=paper", "network.dropout=0", "patience=99")
    fitted(tmp_path, *still, *more, "callbacks.rate_watch=true", "stop.name=val")
    warnings = (tmp_path / log_names.WARNINGS).read_text(encoding="utf-8")
    assert warnings.count("flat_loss: ") == 1


def history(losses: list[float], rates: list[float | None]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{log_names.TRAIN_LOSS: loss} for loss in losses]
    for row, rate in zip(rows, rates, strict=True):
        if rate is not None:
            row[log_names.VAL_TPR_LEAST_FPR] = rate
    return rows


FALLING = [0.5, 0.4, 0.3, 0.2]


@pytest.mark.parametrize(
    ("losses", "rates", "leaks", "fires"),
    [
        (FALLING[:3], [0.798, 0.777, 0.0], 400, True),
        (FALLING, [0.798, 0.777, 0.0, 0.0], 400, True),
        (FALLING[:2], [0.798, 0.0], 400, False),  # two checks tell nothing yet
        (FALLING, [0.5, 0.8, 0.4, 0.0], 40, True),  # from the best check on
        (FALLING, [0.9, 0.8, 0.7, 0.8], 400, False),  # it rose again
        ([0.5, 0.4, 0.4], [0.8, 0.7, 0.0], 400, False),  # the loss does not fall
        (FALLING[:3], [0.8, 0.6, 0.4], 5, False),  # two of five leaks: luck
        (FALLING[:3], [1.0, 0.5, 0.0], 10, True),
        (FALLING, [None] * 4, 40, False),
    ],
)
def test_the_finding_needs_three_checks_and_a_fall_beyond_luck(
    losses: list[float], rates: list[float | None], leaks: int, fires: bool
) -> None:
    assert (overfit(history(losses, rates), leaks) is not None) == fires


@pytest.mark.parametrize("leaks", [5, 30, 400])
def test_noise_around_a_level_is_no_overfitting(leaks: int) -> None:
    """Of 200 runs of 40 checks whose true rate stays at 0.7, at most 5 % are accused."""
    rng, accused = np.random.default_rng(0), 0
    losses = np.linspace(0.7, 0.1, 40).tolist()
    for _ in range(200):
        rates = (rng.binomial(leaks, 0.7, 40) / leaks).tolist()
        rows = history(losses, rates)
        accused += any(overfit(rows[:count], leaks) is not None for count in range(1, 41))
    assert accused <= 10


def test_the_text_names_both_falls() -> None:
    found = overfit(history(FALLING, [0.798, 0.777, 0.0, 0.0]), 400)
    assert found is not None
    assert "4 checks in a row (0.500 to 0.200)" in found.text
    assert "(0.798 to 0.000)" in found.text
