"""The numbers of every step in logs/metrics.csv: whole after a resume too."""

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lightning.fabric.loggers.logger import rank_zero_experiment
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger, Logger
from lightning.pytorch.loggers.csv_logs import ExperimentWriter

from leakdet.storage.atomic import whole_file
from leakdet.training import log_names
from leakdet.training.callbacks.history import write_rows


class StepLog(CSVLogger):
    """Lightning's logger deletes the file that it finds; a resumed run needs the rows up to where it goes on."""

    def __init__(self, run_folder: Path, **arguments: Any) -> None:
        super().__init__(run_folder, name="", version=log_names.LOGS, **arguments)
        self.resumed_at: int | None = None  # optimiser steps done by then; None: a new run

    @property
    @rank_zero_experiment
    def experiment(self) -> Any:
        if self._experiment is None and self.resumed_at is not None:
            self._experiment = _Continued(self.log_dir, self.resumed_at)
        return super().experiment

    def after_save_checkpoint(self, checkpoint_callback: ModelCheckpoint) -> None:
        """A run that is killed goes on from this checkpoint: the rows before it must be in the file."""
        self.save()


def go_on(loggers: Iterable[Logger], step: int) -> None:
    """Let the loggers keep what an earlier part of the run wrote, up to the optimiser step from which it goes on."""
    for logger in loggers:
        if isinstance(logger, StepLog):
            logger.resumed_at = step


class _Continued(ExperimentWriter):
    """Appends to the rows of the steps before `step`; the rows after them are going to be written again."""

    def __init__(self, log_dir: str, step: int) -> None:
        super().__init__(log_dir)
        path = Path(self.metrics_file_path)
        rows = rows_before(path, step) if path.is_file() else []
        if rows:
            with whole_file(path) as partial:
                write_rows(partial, rows)
            self.metrics_keys = list(rows[0])
        else:
            path.unlink(missing_ok=True)

    def _check_log_dir_exists(self) -> None:
        """Lightning's says that the old file will be deleted, and does it."""


def rows_before(path: Path, step: int) -> list[dict[str, Any]]:
    """The rows up to the last one of an earlier step, without one that was cut off.

    A row is numbered by the steps done before its own one, or, where a callback wrote it between two, by all that were done:
    such a row belongs to what is kept only where another one of it follows.
    """
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if None not in row and None not in row.values()]
    kept = [place for place, row in enumerate(rows) if int(row["step"]) < step]
    return rows[: kept[-1] + 1] if kept else []
