"""Where the diagnoses say what they found: on stderr and in the run's warnings.txt, each kind once a run."""

import sys
from collections.abc import Iterable
from pathlib import Path

import lightning.pytorch as pl

from leakdet.detection.diagnostics import Finding
from leakdet.training import names


class Findings:
    """A warning is for a person: cause and next step, not the same again at every check."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / names.WARNINGS
        self.kinds: list[str] = []

    def say(self, trainer: "pl.Trainer", found: Iterable[Finding]) -> None:
        for kind, text in found:
            if kind in self.kinds:
                continue
            self.kinds.append(kind)
            if trainer.is_global_zero:
                line = f"epoch {trainer.current_epoch + 1}, {kind}: {text}"
                print(f"warning: {line}", file=sys.stderr, flush=True)
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")
