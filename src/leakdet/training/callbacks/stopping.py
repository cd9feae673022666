"""Stops a run early: for want of a better check, for a rising loss, or on a signal.

On a signal the current step is finished and `last.ckpt` written.
"""

import math
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping

from leakdet.config import TrainerFlags
from leakdet.core.messages import LOG, json_lines, logs_json, on_screen
from leakdet.core.process import STOPPING, is_ignored
from leakdet.training import log_names
from leakdet.training.module import LeakModule
from leakdet.training.validation import Selection

RISEN = 1.01  # times the lowest loss; below this the loss counts as level


class SelectionStop(EarlyStopping):
    """EarlyStopping that gives its reason and remains stopped.

    A run that is resumed after its stop goes on only with more patience.
    """

    def __init__(self, patience: int, flags: TrainerFlags, selection: Selection) -> None:
        monitor = log_names.VAL_RANK if selection.name == "f1" else log_names.VAL_SELECTION
        super().__init__(monitor, patience=patience, mode="max", check_finite=True, strict=True)
        self.flags, self.selection = flags, selection
        self._reason_given = False

    def on_train_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if self.wait_count >= self.patience:
            trainer.should_stop = True
            self._give_reason(trainer, pl_module)

    def on_train_epoch_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        super().on_train_epoch_end(trainer, pl_module)
        self._give_reason(trainer, pl_module)

    def on_validation_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        super().on_validation_end(trainer, pl_module)
        if not trainer.sanity_checking:
            self._give_reason(trainer, pl_module)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({**state_dict, "patience": self.patience})

    def _give_reason(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if self.wait_count < self.patience or self._reason_given or not trainer.is_global_zero:
            return
        self._reason_given = True
        best, ties = "", ""
        if isinstance(pl_module, LeakModule) and self.selection.name == "f1":
            best = f" (best {max(row[log_names.VAL_F1] for row in pl_module.history):.3f})"
            ties = "; of checks with equal F1 that with the lower loss is better"
        waited = self.flags.span(self.wait_count)
        LOG.info(f"stopped  no better {self.selection.words} for {waited}{best}{ties}")


class LossStop(Callback):
    """Stops after `patience` validation checks in a row with a risen loss and none better.

    Better by F1 itself, or by the rank of another `select`.
    """

    def __init__(self, patience: int, flags: TrainerFlags, selection: Selection) -> None:
        self.patience, self.flags, self.selection = patience, flags, selection
        self.monitor = log_names.VAL_F1 if selection.name == "f1" else log_names.VAL_SELECTION
        self.waited = 0
        self.lowest = float("inf")
        self.best = -math.inf

    def on_train_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if self.waited >= self.patience:
            trainer.should_stop = True

    def on_validation_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if trainer.sanity_checking:
            return
        loss = float(trainer.callback_metrics[log_names.VAL_LOSS])
        if self.update(loss, float(trainer.callback_metrics[self.monitor])):
            trainer.should_stop = True
            if trainer.is_global_zero:
                best = f" (best {self.best:.3f})" if self.selection.name == "f1" else ""
                LOG.info(
                    f"stopped  {log_names.VAL_LOSS} has risen for {self.flags.span(self.waited)} "
                    f"(lowest {self.lowest:.4f}, now {loss:.4f}) without a better "
                    f"{self.selection.words}{best}"
                )

    def update(self, loss: float, value: float) -> bool:
        """Count a check in; True when it is time to stop."""
        rising = loss > RISEN * self.lowest and value <= self.best
        fallen = loss < self.lowest or value > self.best
        self.waited = self.waited + 1 if rising else 0 if fallen else self.waited
        self.lowest, self.best = min(self.lowest, loss), max(self.best, value)
        return self.waited >= self.patience

    def state_dict(self) -> dict[str, Any]:
        return {"waited": self.waited, "lowest": self.lowest, "best_f1": self.best}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.waited, self.lowest = state_dict["waited"], state_dict["lowest"]
        self.best = state_dict["best_f1"]


# steps between agreements of several processes within an epoch, each of which costs a message
AGREE_EVERY = 8

SIGNALS = (signal.SIGINT, *STOPPING)


class Interrupted(SystemExit):
    """A run was asked to stop and has written its checkpoint, if it had made a step.

    No `Exception`, so that nothing on the way swallows it.
    """

    def __init__(self, number: int, checkpoint: Path) -> None:
        self.number, self.checkpoint = number, checkpoint
        self.saved = checkpoint.exists()
        state = f"; all is in {checkpoint}" if self.saved else " before the first step"
        super().__init__(f"stopped by {signal.Signals(number).name}{state}")
        self.code = self.exit_code

    @property
    def exit_code(self) -> int:
        """130 for SIGINT, 143 for SIGTERM and so on, as shells count."""
        return 128 + self.number


class Interruption(Callback):
    """Ends the run after the step or epoch of a first signal, and at once at a second one."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self.received = 0
        self.numbers: tuple[int, ...] = ()  # signals that are listened to
        self.saved_step = -1  # the run's step at its latest checkpoint

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Note signals inside; outside they are handled as before. Only a main thread can do so."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {n: signal.signal(n, self._note) for n in SIGNALS if not is_ignored(n)}
        self.numbers = tuple(before)
        try:
            yield
        finally:
            self.numbers = ()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self.received:
            self.received = number
            if on_screen():
                os.write(2, _notice())  # a signal may come within a print
        elif on_screen():
            os._exit(128 + number)
        else:  # a notebook continues
            raise KeyboardInterrupt

    def on_sanity_check_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        self._take_back()

    def on_train_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        self._take_back()
        self.saved_step = trainer.global_step  # where it starts, there is nothing to save

    def _take_back(self) -> None:
        """Replace the SIGTERM handler that Lightning has set, which would end with exit code 0."""
        for number in self.numbers:
            signal.signal(number, self._note)

    def on_save_checkpoint(
        self, trainer: "pl.Trainer", pl_module: "pl.LightningModule", checkpoint: dict[str, Any]
    ) -> None:
        self.saved_step = trainer.global_step

    def on_train_epoch_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        """Stop before the first step, and between epochs: one step may be a whole epoch."""
        # Agree first: processes that ask each other at different places wait for ever. Where the
        # epoch before had no check, its steps are in no checkpoint yet and the run continues.
        if self._agreed(trainer) and self.saved_step == trainer.global_step:
            raise Interrupted(self.received, self.checkpoint)

    def on_train_batch_end(
        self,
        trainer: "pl.Trainer",
        pl_module: "pl.LightningModule",
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        last = batch_idx + 1 >= trainer.num_training_batches
        between_steps = (batch_idx + 1) % trainer.accumulate_grad_batches != 0
        # the validation check after an epoch's last batch must not be lost
        if last or between_steps or not agreement_due(trainer.global_step, trainer.world_size):
            return
        if self._agreed(trainer):
            trainer.save_checkpoint(self.checkpoint)
            raise Interrupted(self.received, self.checkpoint)

    def _agreed(self, trainer: "pl.Trainer") -> bool:
        """True if any process received a signal; then all stop after the same step."""
        if trainer.world_size > 1:
            mine = torch.tensor(self.received, device=trainer.strategy.root_device)
            torch.distributed.all_reduce(mine, torch.distributed.ReduceOp.MAX)
            agreed = int(mine)
            # a signal received meanwhile waits for the next time: the others do not know of it
            if agreed:
                self.received = agreed
            return agreed > 0
        return self.received > 0


def _notice() -> bytes:
    text = "stopping after this step; a second signal stops at once"
    lines = json_lines("info", text, "stopping") if logs_json() else [f"\n{text}"]
    return "".join(f"{line}\n" for line in lines).encode()


def agreement_due(step: int, processes: int) -> bool:
    """True if processes agree after this step of an epoch; at an epoch's start they always do."""
    return processes == 1 or step % AGREE_EVERY == 0
