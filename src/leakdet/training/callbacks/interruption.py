"""Stopping on Ctrl-C or SIGTERM without losing a step: the step is finished, `last.ckpt` written, then the run ends."""

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

from leakdet._messages import on_screen

# steps between agreements of several processes within an epoch: each costs a message
AGREE_EVERY = 8

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(SystemExit):
    """A run that was asked to stop and has written its checkpoint. No Exception: nothing on the way may swallow it."""

    def __init__(self, number: int, checkpoint: Path) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}; all is in {checkpoint}")
        self.number, self.checkpoint = number, checkpoint
        self.code = self.exit_code

    @property
    def exit_code(self) -> int:
        """130 for SIGINT, 143 for SIGTERM, as shells count."""
        return 128 + self.number


class Interruption(Callback):
    """Notes the first signal and ends the run after the optimiser step or its epoch; a second signal ends it at once."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self.received = 0
        self.listens = False
        self.saved_step = -1  # of the run, when its latest checkpoint was written

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Note signals inside, and handle them as before outside; a main thread alone can do so."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._note) for number in SIGNALS}
        self.listens = True
        try:
            yield
        finally:
            self.listens = False
            for number, handler in before.items():
                signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self.received:
            self.received = number
            if on_screen():
                os.write(2, b"\nstopping after this step; a second signal stops at once\n")
        elif on_screen():
            os._exit(128 + number)
        else:  # a notebook goes on living
            raise KeyboardInterrupt

    def on_train_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        """Lightning has put its own SIGTERM handler before ours by now; it would end the run with exit code 0."""
        if self.listens:
            for number in SIGNALS:
                signal.signal(number, self._note)

    def on_save_checkpoint(
        self, trainer: "pl.Trainer", pl_module: "pl.LightningModule", checkpoint: dict[str, Any]
    ) -> None:
        self.saved_step = trainer.global_step

    def on_train_epoch_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        """The epoch before is whole, its check too; without this an epoch of one step, always the last, would never stop."""
        # Agree first: processes that ask each other at different places wait for ever. The steps of an epoch that had no
        # check are in no checkpoint yet; the run goes on to where they are.
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
        # After the epoch's last batch comes the validation check: it is part of what must not be lost.
        if last or between_steps or not agreement_due(trainer.global_step, trainer.world_size):
            return
        if self._agreed(trainer):
            trainer.save_checkpoint(self.checkpoint)
            raise Interrupted(self.received, self.checkpoint)

    def _agreed(self, trainer: "pl.Trainer") -> bool:
        """The largest signal number on any process, so that all of them stop after the same step."""
        if trainer.world_size > 1:
            mine = torch.tensor(self.received, device=trainer.strategy.root_device)
            torch.distributed.all_reduce(mine, torch.distributed.ReduceOp.MAX)
            agreed = int(mine)
            # what was noted meanwhile stays for the next time: the others do not know of it
            if agreed:
                self.received = agreed
            return agreed > 0
        return self.received > 0


def agreement_due(step: int, processes: int) -> bool:
    """Within an epoch, after an optimiser step that is not its last. Where an epoch starts it always is."""
    return processes == 1 or step % AGREE_EVERY == 0
