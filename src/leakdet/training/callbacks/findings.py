"""Where the diagnoses say what they found: on stderr and in the run's warnings.txt, each kind once a run."""

import re
from collections.abc import Iterable
from pathlib import Path

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback

from leakdet._messages import LOG
from leakdet.training import log_names
from leakdet.training.diagnostics import Finding


class Findings(Callback):
    """A warning is for a person: cause and next step, not the same again at every check, nor after a resume."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / log_names.WARNINGS
        self.kinds: list[str] = []

    def on_train_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if trainer.ckpt_path is not None and self.path.exists():
            self.kinds = kinds_said(self.path.read_text(encoding="utf-8"))

    def say(self, trainer: "pl.Trainer", found: Iterable[Finding]) -> None:
        for kind, text in found:
            if kind in self.kinds:
                continue
            self.kinds.append(kind)
            if trainer.is_global_zero:
                line = f"epoch {trainer.current_epoch + 1}, {kind}: {text}"
                LOG.warning(line)
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")


def kinds_said(text: str) -> list[str]:
    """The kinds in the lines of a warnings.txt."""
    return re.findall(r"^epoch \d+, (\w+): ", text, flags=re.MULTILINE)
