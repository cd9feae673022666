"""Progress on screen: a line per validation check, and on a terminal a bar within the epoch."""

import time
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import ProgressBar
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from leakdet._messages import LOG, on_screen
from leakdet.training.module import LeakModule

COLUMNS = ("epoch", "train loss", "val loss", "val F1", "val AUROC", "learning rate", "s/epoch")
WIDTHS = (9, 11, 10, 8, 10, 14, 8)


class EpochTable(ProgressBar):
    """A table of plain text that grows by a line per check; the best F1 so far has a star."""

    def __init__(self, refresh_batches: int = 20) -> None:
        super().__init__()
        self._refresh_batches = refresh_batches
        self._console = Console()
        self._bar: Progress | None = None
        self._best_f1 = -1.0
        self._epoch_started = 0.0
        self._enabled = True

    def disable(self) -> None:
        self._enabled = False

    def enable(self) -> None:
        self._enabled = True

    def on_train_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if self._enabled:
            _print_row(*COLUMNS)

    def on_train_epoch_start(
        self, trainer: "pl.Trainer", pl_module: "pl.LightningModule", *_: Any
    ) -> None:
        self._epoch_started = time.monotonic()
        if self._enabled and on_screen() and self._console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*columns, console=self._console, transient=True)
            self._bar.start()
            self._bar.add_task(
                f"epoch {trainer.current_epoch + 1}, batches", total=int(self.total_train_batches)
            )

    def on_train_batch_end(
        self,
        trainer: "pl.Trainer",
        pl_module: "pl.LightningModule",
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        if self._bar and (batch_idx + 1) % self._refresh_batches == 0:
            self._bar.update(self._bar.task_ids[0], completed=batch_idx + 1)

    def on_train_epoch_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        self._close_bar()
        latest = pl_module.latest if isinstance(pl_module, LeakModule) else None
        if not self._enabled or latest is None or latest.epoch != trainer.current_epoch:
            return  # this epoch had no check
        star = "*" if latest.f1 > self._best_f1 else " "
        self._best_f1 = max(self._best_f1, latest.f1)
        last = trainer.max_epochs if (trainer.max_epochs or -1) > 0 else "?"
        _print_row(
            f"{trainer.current_epoch + 1}/{last}",
            f"{latest.train_loss[0]:.4f}",
            f"{latest.val_loss[0]:.4f}",
            f"{latest.f1:.4f}{star}",
            "-" if latest.auroc is None else f"{latest.auroc:.4f}",
            f"{trainer.optimizers[0].param_groups[0]['lr']:.2e}",
            f"{time.monotonic() - self._epoch_started:.1f}",
        )

    def on_exception(
        self, trainer: "pl.Trainer", pl_module: "pl.LightningModule", exception: BaseException
    ) -> None:
        self._close_bar()

    def state_dict(self) -> dict[str, Any]:
        return {"best_f1": self._best_f1}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._best_f1 = state_dict["best_f1"]

    def _close_bar(self) -> None:
        if self._bar:
            self._bar.stop()
            self._bar = None


def _print_row(*cells: str) -> None:
    LOG.info(" ".join(cell.rjust(width) for cell, width in zip(cells, WIDTHS, strict=True)))
