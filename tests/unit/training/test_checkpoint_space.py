"""The space for checkpoints is compared with what is free before a training begins."""

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from leakdet.config import TrainConfig
from leakdet.errors import InputError
from leakdet.training import log_names
from leakdet.training.checkpoint_space import RESULTS_BYTES, space_line
from leakdet.training.datamodule import LeakDataModule


def test_the_estimate_is_near_what_a_training_writes(
    configured: Callable[..., TrainConfig],
    fitted: Callable[..., Any],
    opened: Callable[[TrainConfig], LeakDataModule],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = configured("trainer.max_epochs=1")
    fitted(tmp_path, "trainer.max_epochs=1")
    files = list((tmp_path / log_names.CHECKPOINTS).glob("*.ckpt"))
    written = sum(file.stat().st_size for file in files)

    def line(free: int) -> str:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
        return space_line(config, opened(config), tmp_path / "run")

    assert len(files) == 3
    with pytest.raises(InputError, match=r"run: about .* free some space"):
        line(written + RESULTS_BYTES)  # one more file while another one is replaced
    assert line(2 * written + RESULTS_BYTES).startswith(f"folder   {tmp_path / 'run'}: about")
