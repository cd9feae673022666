"""Reporting of diagnostic callbacks: warnings, each kind once a run, and logged numbers."""

import re
from pathlib import Path
from typing import NamedTuple

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback

from leakdet._messages import LOG
from leakdet.training import log_names
from leakdet.training.module import LeakModule


class Finding(NamedTuple):
    """A fault of the training: its kind, and a sentence with the cause and the next step."""

    kind: str
    text: str


class Findings(Callback):
    """Warns of each kind of finding once, also across a resume, and keeps it in warnings.txt."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / log_names.WARNINGS
        self.kinds: list[str] = []

    def on_train_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if trainer.ckpt_path is not None and self.path.exists():
            self.kinds = kinds_in(self.path.read_text(encoding="utf-8"))

    def warn(self, trainer: "pl.Trainer", finding: Finding | None) -> None:
        if finding is None or finding.kind in self.kinds:
            return
        self.kinds.append(finding.kind)
        if trainer.is_global_zero:
            line = f"epoch {trainer.current_epoch + 1}, {finding.kind}: {finding.text}"
            LOG.warning(line)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")


def kinds_in(text: str) -> list[str]:
    """The kinds in the lines of a warnings.txt."""
    return re.findall(r"^epoch \d+, (\w+): ", text, flags=re.MULTILINE)


def log_numbers(trainer: "pl.Trainer", numbers: dict[str, float]) -> None:
    """Log past `pl_module.log`, whose bookkeeping costs more than most of these numbers.

    Lightning's LearningRateMonitor does the same.
    """
    for logger in trainer.loggers:
        logger.log_metrics(numbers, trainer.global_step)


def place_of_windows(module: "pl.LightningModule") -> str:
    """Where the windows are kept, as in `Residency.kind`; "" for a module of another kind."""
    return module.data.residency.kind if isinstance(module, LeakModule) else ""
