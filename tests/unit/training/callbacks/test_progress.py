"""The table of a run on screen."""

from collections.abc import Callable
from pathlib import Path

import lightning.pytorch as pl
import pytest

from leakdet.training.callbacks import progress
from leakdet.training.callbacks.progress import EpochReport, EpochTable

Fitted = Callable[..., pl.Trainer]


def test_the_table_has_a_row_for_each_check_and_none_for_the_epochs_between(
    fitted: Fitted, tmp_path: Path, messages: pytest.LogCaptureFixture
) -> None:
    fitted(
        tmp_path,
        "trainer.max_epochs=4",
        "loss_patience=0",
        "trainer.check_val_every_n_epoch=2",
        "trainer.enable_progress_bar=true",
        "callbacks.step_times=false",  # the line on the speed comes after the table
    )
    rows = [line.split() for line in messages.messages]
    assert [row[0] for row in rows] == ["epoch", "2/4", "4/4"]
    assert rows[-1][-2:] == ["0", "s"]  # left
    assert max(map(len, messages.messages)) <= 80


def test_an_epoch_that_is_resumed_has_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1e6]  # the machine's uptime
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    before = EpochTable()
    before.disable()
    before.on_train_epoch_start(trainer := pl.Trainer(logger=False), pl.LightningModule())
    now[0] += 5
    saved = before.state_dict()
    now[0] += 1000
    after = EpochTable()
    after.disable()
    after.load_state_dict(saved)
    after.on_train_start(trainer, pl.LightningModule())
    now[0] += 2
    assert after.state_dict()["epoch_s"] == pytest.approx(7)
    after.on_train_epoch_start(trainer, pl.LightningModule())
    now[0] += 3
    assert after.state_dict()["epoch_s"] == pytest.approx(3)


def test_a_report_tells_which_epoch_begins() -> None:
    said: list[str] = []
    EpochReport(said.append).on_train_epoch_start(
        pl.Trainer(logger=False, max_epochs=4), pl.LightningModule()
    )
    assert said == ["epoch 1/4"]
