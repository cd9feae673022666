"""Python searches all objects for garbage now and then; a training need not wait while it looks through every module."""

import gc
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback


class GarbageSearch(Callback):
    """What is there after the first step is left out of the searches until training ends.

    That is half a million objects, of torch and Lightning above all. Looking through a third of them took 0.2 s, once in
    100,000 batches of 512 segments (measured); of several processes, all wait for the one that looks.
    """

    def __init__(self) -> None:
        self._frozen = False

    def on_train_batch_end(self, *_: Any) -> None:
        if not self._frozen:  # no earlier: the first step imports what it compiles with
            gc.freeze()
            self._frozen = True

    def on_train_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        self._end()

    def on_exception(
        self, trainer: "pl.Trainer", pl_module: "pl.LightningModule", exception: BaseException
    ) -> None:
        self._end()

    def _end(self) -> None:
        if self._frozen:
            gc.unfreeze()
            self._frozen = False
