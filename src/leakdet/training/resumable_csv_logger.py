"""A CSV logger whose logs/metrics.csv is complete after a resume too."""

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lightning.fabric.loggers.logger import rank_zero_experiment
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger, Logger
from lightning.pytorch.loggers.csv_logs import ExperimentWriter

from leakdet.storage.csv_file import write_csv
from leakdet.training import log_names


class ResumableCSVLogger(CSVLogger):
    """Keeps the rows up to the resumed step, where Lightning's logger deletes the file it finds."""

    def __init__(self, run_folder: Path, **arguments: Any) -> None:
        super().__init__(run_folder, name="", version=log_names.LOGS, **arguments)
        self.resumed_at: int | None = None  # optimiser steps done by then; None: a new run

    @property
    @rank_zero_experiment
    def experiment(self) -> Any:
        if self._experiment is None and self.resumed_at is not None:
            self._experiment = _AppendingWriter(self.log_dir, self.resumed_at)
        return super().experiment

    def after_save_checkpoint(self, checkpoint_callback: ModelCheckpoint) -> None:
        """Write the rows so far: a run that is killed resumes from this checkpoint."""
        self.save()


def resume_logs(loggers: Iterable[Logger], step: int) -> None:
    """Let the loggers keep what the run wrote before the optimiser step from which it resumes."""
    for logger in loggers:
        if isinstance(logger, ResumableCSVLogger):
            logger.resumed_at = step


class _AppendingWriter(ExperimentWriter):
    """Drops the rows from `step` on, which will be written again, and appends to the others."""

    def __init__(self, log_dir: str, step: int) -> None:
        super().__init__(log_dir)
        path = Path(self.metrics_file_path)
        rows = rows_before(path, step) if path.is_file() else []
        if rows:
            write_csv(path, rows)
            self.metrics_keys = list(rows[0])
        else:
            path.unlink(missing_ok=True)

    def _check_log_dir_exists(self) -> None:
        """Do nothing: Lightning's deletes the old file, with a warning."""


def rows_before(path: Path, step: int) -> list[dict[str, Any]]:
    """The rows up to the last one of an earlier step, without those that are cut off or damaged.

    A row is numbered by the steps done before its own, but one that a callback wrote between two
    steps by all that were done: it is kept only if a row of an earlier step follows.
    """
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        lines = (line.replace("\0", "") for line in file)
        rows = [
            row for row in csv.DictReader(lines) if None not in row and None not in row.values()
        ]
    rows = [row for row in rows if row.get("step", "").isdecimal()]
    earlier = [index for index, row in enumerate(rows) if int(row["step"]) < step]
    return rows[: earlier[-1] + 1] if earlier else []
