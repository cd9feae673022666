"""Each kind of warning is given once a run, also across a resume."""

from collections.abc import Callable
from pathlib import Path

import lightning.pytorch as pl
import pytest

from leakdet.training import log_names
from leakdet.training.callbacks.findings import Finding, Findings, kinds_in, log_numbers

Fitted = Callable[..., pl.Trainer]
Warned = Callable[[Path], list[str]]
FOUR = ("trainer.max_epochs=4", "loss_patience=0")
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
    trainer, module = trainer_and_rows[0], pl.LightningModule()
    first, second = Finding("gpu", "idle"), Finding("heads", "disagree, epoch 3, twice: really")
    findings = Findings(tmp_path)
    for finding in (first, None, first, second):
        findings.warn(trainer, finding)
    text = (tmp_path / log_names.WARNINGS).read_text()
    assert kinds_in(text) == ["gpu", "heads"]
    resumed = Findings(tmp_path)
    trainer.ckpt_path = "last.ckpt"
    resumed.on_train_start(trainer, module)
    resumed.warn(trainer, first)
    assert (tmp_path / log_names.WARNINGS).read_text() == text
    fresh = Findings(tmp_path)
    trainer.ckpt_path = None
    fresh.on_train_start(trainer, module)
    assert fresh.kinds == []


def test_numbers_go_to_every_logger(trainer_and_rows: tuple[pl.Trainer, Rows]) -> None:
    trainer, rows = trainer_and_rows
    log_numbers(trainer, {"a": 1.0})
    assert rows == [{"a": 1.0}]
