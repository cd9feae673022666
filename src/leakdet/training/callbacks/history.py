"""Writes history.csv, a row of numbers per validation check, complete after a resume too."""

from pathlib import Path

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback

from leakdet.storage.csv_file import write_csv
from leakdet.training import log_names
from leakdet.training.module import LeakModule


class History(Callback):
    """Writes the file anew at every check, from the rows in the module's checkpoint."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / log_names.HISTORY

    def on_validation_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if isinstance(pl_module, LeakModule) and pl_module.history and trainer.is_global_zero:
            write_csv(self.path, pl_module.history)
