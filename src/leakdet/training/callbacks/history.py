"""Writes history.csv, a row of numbers per validation check, complete after a resume too."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback

from leakdet.storage.atomic import whole_file
from leakdet.training import log_names
from leakdet.training.module import LeakModule


class History(Callback):
    """Writes the file anew at every check, from the rows in the module's checkpoint."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / log_names.HISTORY

    def on_validation_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if isinstance(pl_module, LeakModule) and pl_module.history and trainer.is_global_zero:
            with whole_file(self.path) as partial:
                write_rows(partial, pl_module.history)


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a CSV whose columns are the rows' keys, in the order in which they first appear."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)
