"""What the tests of several callbacks share."""

from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import lightning.pytorch as pl
import pytest
from lightning.pytorch.loggers import Logger

from leakdet.training import log_names
from leakdet.training.callbacks.diagnostics import kinds_in

Rows = list[dict[str, float]]


@pytest.fixture
def warned() -> Callable[[Path], list[str]]:
    """`warned(folder)`: kinds of the warnings of the run there."""

    def kinds(folder: Path) -> list[str]:
        path = folder / log_names.WARNINGS
        return kinds_in(path.read_text(encoding="utf-8")) if path.exists() else []

    return kinds


@pytest.fixture
def trainer_and_rows() -> tuple[pl.Trainer, Rows]:
    """A trainer for a callback alone, and the rows that its logger is given."""
    logger = Mock(spec=Logger)
    trainer = Mock(spec=pl.Trainer, loggers=[logger], global_step=0, sanity_checking=False)
    trainer.is_global_zero, trainer.current_epoch = True, 0
    rows: Rows = []
    logger.log_metrics = lambda numbers, step: rows.append(numbers)
    return trainer, rows
