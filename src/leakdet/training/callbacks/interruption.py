"""Stops a run on a signal once the current step is finished and `last.ckpt` written."""

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
from lightning.pytorch.callbacks import Callback

from leakdet.core.messages import json_lines, logs_json, on_screen
from leakdet.core.process import STOPPING, is_ignored

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
        kept = f"; all is in {checkpoint}" if self.saved else " before the first step"
        super().__init__(f"stopped by {signal.Signals(number).name}{kept}")
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
