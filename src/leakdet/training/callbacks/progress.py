"""Progress on screen: a line per validation check, and a bar or rare lines within the epoch."""

import math
import time
from collections.abc import Callable
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback, ProgressBar

from leakdet.core.messages import LOG
from leakdet.core.progress import ProgressCounter, time_text
from leakdet.training.module import LeakModule
from leakdet.training.validation import Selection

COLUMNS = (
    "epoch", "train loss", "val loss", "val F1", "val AUROC", "learning rate", "s/epoch", "left",
)  # fmt: skip
WIDTHS = (9, 10, 9, 8, 9, 13, 7, 7)
OWN_WIDTH = 18
FIRST_LINE_S = 60.0  # within an epoch, where lines are printed


class EpochTable(ProgressBar):
    """A table of plain text that grows by a line per check; the best one so far has a star.

    The star is in the column of what `select` names; a rate gets a column of its own.

    `left` is the time to the last epoch, which an early stop shortens. The time of an epoch that
    was resumed includes what came before the stop.
    """

    def __init__(self, refresh_batches: int = 20) -> None:
        super().__init__()
        self._refresh_batches = refresh_batches
        self._counter: ProgressCounter | None = None
        self._best = -math.inf
        self._epoch_started = time.monotonic()
        self._earlier_s = 0.0  # of this epoch, before a resume
        self._total_s, self._epochs = 0.0, 0
        self._enabled = True

    def disable(self) -> None:
        self._enabled = False

    def enable(self) -> None:
        self._enabled = True

    def on_train_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if self._enabled:
            _print_row(*COLUMNS, *_rate_column(pl_module))
        # no epoch starts where a run is resumed within one
        self._begin(trainer, trainer.fit_loop.epoch_loop.batch_progress.current.completed)

    def on_train_epoch_start(
        self, trainer: "pl.Trainer", pl_module: "pl.LightningModule", *_: Any
    ) -> None:
        self._earlier_s = 0.0
        self._begin(trainer)

    def _begin(self, trainer: "pl.Trainer", done: int = 0) -> None:
        """Show an epoch of which `done` batches were trained on before."""
        self._close()
        self._epoch_started = time.monotonic()
        if self._enabled:
            title = f"epoch {epoch_text(trainer)}{self._total_left(trainer, ', {} left in all')}"
            batches = int(self.total_train_batches)
            self._counter = ProgressCounter(
                title, batches, "batches", closing=False, first_line_s=FIRST_LINE_S
            )
            self._counter.begin_at(done)
            self._counter.__enter__()

    def on_train_batch_end(
        self,
        trainer: "pl.Trainer",
        pl_module: "pl.LightningModule",
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        if self._counter and (batch_idx + 1) % self._refresh_batches == 0:
            self._counter.step(batch_idx + 1 - self._counter.done)

    def on_train_epoch_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        self._close()
        epoch_s = self._epoch_s()
        self._total_s, self._epochs = self._total_s + epoch_s, self._epochs + 1
        latest = pl_module.latest if isinstance(pl_module, LeakModule) else None
        if not self._enabled or latest is None or latest.epoch != trainer.current_epoch:
            return  # this epoch had no check
        by = latest.selection.name
        value = latest.f1 if by == "f1" else latest.selected_rank
        star = "*" if value > self._best else " "
        self._best = max(self._best, value)
        starred = {name: star if name == by else "" for name in ("f1", "auroc", "loss")}
        rates = [f"{_number(latest.selected)}{star}" for _ in _rate_column(pl_module)]
        _print_row(
            epoch_text(trainer),
            f"{latest.train_loss[0]:.4f}",
            f"{latest.val_loss[0]:.4f}{starred['loss']}",
            f"{latest.f1:.4f}{starred['f1']}",
            f"{_number(latest.auroc)}{starred['auroc']}",
            f"{trainer.optimizers[0].param_groups[0]['lr']:.2e}",
            f"{epoch_s:.1f}",
            self._total_left(trainer, "{}", done=1) or "-",
            *rates,
        )

    def _epoch_s(self) -> float:
        return self._earlier_s + time.monotonic() - self._epoch_started

    def _total_left(self, trainer: "pl.Trainer", words: str, done: int = 0) -> str:
        """The time that all epochs left would take, in `words`; nothing where it is unknown."""
        last = trainer.max_epochs or -1
        if last < 0 or not self._epochs:
            return ""
        epochs = last - trainer.current_epoch - done
        return words.format(time_text(self._total_s / self._epochs * epochs))

    def on_exception(
        self, trainer: "pl.Trainer", pl_module: "pl.LightningModule", exception: BaseException
    ) -> None:
        self._close()

    def state_dict(self) -> dict[str, Any]:
        return {"best_f1": self._best, "epoch_s": self._epoch_s()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._best = state_dict["best_f1"]
        self._earlier_s = state_dict["epoch_s"]

    def _close(self) -> None:
        if self._counter:
            self._counter.__exit__(None, None, None)
            self._counter = None


class EpochReport(Callback):
    """Tells `say` which epoch begins, in words."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def on_train_epoch_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        self._say(f"epoch {epoch_text(trainer)}")


def epoch_text(trainer: "pl.Trainer") -> str:
    """The running epoch, counted from 1, and the last one where there is one."""
    last = trainer.max_epochs if (trainer.max_epochs or -1) > 0 else "?"
    return f"{trainer.current_epoch + 1}/{last}"


def _rate_column(module: "pl.LightningModule") -> list[str]:
    """The head of the column that a rate gets under `select`."""
    by = Selection.of(module.config) if isinstance(module, LeakModule) else None
    return [by.words] if by is not None and by.limit is not None else []


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _print_row(*cells: str) -> None:
    widths = (*WIDTHS, OWN_WIDTH)
    LOG.info(" ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=False)))
