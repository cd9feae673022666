"""The table of a run on screen."""

from collections.abc import Callable
from pathlib import Path

import lightning.pytorch as pl
import pytest

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
    )
    rows = [line.split()[0] for line in messages.messages]
    assert rows == ["epoch", "2/4", "4/4"]
