"""The run's numbers, a row per validation check, in history.csv: whole after a resume too, in whichever folder."""

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
    """The rows live in the module's checkpoint; the file is written anew at every check."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / log_names.HISTORY

    def on_validation_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if (
            trainer.sanity_checking
            or not trainer.is_global_zero
            or not isinstance(pl_module, LeakModule)
        ):
            return
        with whole_file(self.path) as partial:
            write_rows(partial, pl_module.history)


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)
