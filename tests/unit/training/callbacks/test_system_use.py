"""Readings of the machine, taken beside the training and never after it."""

import threading
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import lightning.pytorch as pl
import pytest
import torch

from leakdet.errors import LeakdetError
from leakdet.training import log_names
from leakdet.training.callbacks.findings import Findings
from leakdet.training.callbacks.system_use import SystemUse, idle_gpu, measured

Fitted = Callable[..., pl.Trainer]


class NVMLError(Exception):
    """As pynvml's: no RuntimeError."""


def test_where_the_driver_gives_no_number_the_others_are_logged(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    trainer_and_rows: tuple[pl.Trainer, list[dict[str, float]]],
) -> None:
    def utilization(device: torch.device) -> int:
        raise NVMLError("Not Supported")

    monkeypatch.setattr(torch.cuda, "utilization", utilization)
    assert set(measured(torch.device("cuda"))) == {log_names.CPU_USE, log_names.RAM_USE}
    use, (trainer, rows) = SystemUse(Findings(tmp_path)), trainer_and_rows
    use._readings = [{log_names.CPU_USE: 0.5, log_names.GPU_USE: 0.8}, {log_names.CPU_USE: 0.7}]
    use.on_train_epoch_end(trainer, Mock(spec=pl.LightningModule))
    assert rows == [{log_names.CPU_USE: pytest.approx(0.6), log_names.GPU_USE: 0.8}]


def test_no_reading_is_taken_after_an_exception(fitted: Fitted, tmp_path: Path) -> None:
    with pytest.raises(LeakdetError, match="validation loss"):
        fitted(tmp_path, "trainer.max_epochs=1", "optimizer.lr=1e30", "optimizer.warmup_epochs=0")
    assert "system use" not in [thread.name for thread in threading.enumerate()]


def test_an_idle_gpu_is_told_below_30_percent() -> None:
    finding = idle_gpu(0.29)
    assert finding is not None
    assert finding.kind == "gpu"
    assert idle_gpu(0.3) is None
