"""Logs how fast a training is, and warns of slow callbacks and slow validation checks."""

import math
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback

from leakdet._messages import LOG
from leakdet.loading.samples import Batch
from leakdet.loading.train_loader import TrainLoader
from leakdet.training import log_names
from leakdet.training.callbacks.findings import Finding, Findings, log_numbers
from leakdet.training.wait_times import KEPT, quantile

CALLBACKS_SHARE, LEAST_CALLBACKS_S, LEAST_A_BATCH_S = 0.20, 1.0, 0.005
CHECK_SHARE, LEAST_CHECK_S = 0.50, 5.0
WANTED_SHARE = 0.20  # of the time, to which the advice brings checks


@dataclass
class Stretch:
    """Seconds and counts of a stretch of training, without the checks."""

    samples: int = 0
    batches: int = 0
    training_s: float = 0.0
    waited_s: float = 0.0
    callbacks_s: float = 0.0  # and loggers, between the batches
    check_s: float = 0.0
    batches_s: float = 0.0  # and the sum of squares, from which follows the deviation
    squares: float = 0.0
    longest_s: float = 0.0
    latest_s: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))

    def add_batch(self, seconds: float, samples: int) -> None:
        """Count a batch: the time from the one before, or from when it was asked for."""
        self.batches += 1
        self.samples += samples
        self.batches_s += seconds
        self.squares += seconds**2
        self.longest_s = max(self.longest_s, seconds)
        self.latest_s.append(seconds)

    def __iadd__(self, other: "Stretch") -> "Stretch":
        for name in vars(self):
            if name not in ("longest_s", "latest_s"):
                setattr(self, name, getattr(self, name) + getattr(other, name))
        self.longest_s = max(self.longest_s, other.longest_s)
        return self

    @property
    def batch_s(self) -> tuple[float, float]:
        """Mean and standard deviation of the time of a batch."""
        mean = self.batches_s / max(1, self.batches)
        return mean, math.sqrt(max(0.0, self.squares / max(1, self.batches) - mean**2))

    def numbers(self) -> dict[str, float]:
        """What is logged at a check, after one batch or more."""
        training_s, (mean, deviation) = max(1e-9, self.training_s), self.batch_s
        return {
            log_names.SAMPLES_PER_S: self.samples / training_s,
            log_names.BATCHES_PER_S: self.batches / training_s,
            log_names.BATCH_MEAN: mean,
            log_names.BATCH_STD: deviation,
            log_names.BATCH_P95: quantile(self.latest_s, 0.95),
            log_names.BATCH_MAX: self.longest_s,
            log_names.CALLBACKS_SHARE: self.callbacks_s / training_s,
            log_names.CHECK_TIME: self.check_s,
            log_names.CHECK_SHARE: self.check_s / (training_s + self.check_s),
        }

    def sentence(self) -> str:
        """The speed of the whole training."""
        training_s = max(1e-9, self.training_s)
        mean, deviation = self.batch_s
        return (
            f"{self.samples / training_s:,.0f} samples/s, {self.batches / training_s:.3g} "
            f"batches/s (a batch {mean * 1e3:,.1f} ± {deviation * 1e3:,.1f} ms); waiting for data "
            f"{self.waited_s / training_s:.0%}, callbacks and loggers "
            f"{self.callbacks_s / training_s:.0%}; besides, checks took "
            f"{self.check_s / (training_s + self.check_s):.0%} of the time"
        )


class StepTimes(Callback):
    """Reads the host's clock around batches and checks; comes before all other callbacks.

    A training that shows its progress ends with a line on its speed.

    Lightning's ThroughputMonitor waits for the GPU in every step, warns where a module does not
    tell its FLOPs, and takes every batch to be as large as the first. Here a GPU is waited for
    before a check only; until then it keeps the pace, since few steps can be queued.
    """

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.total = Stretch()  # of this process: before a resume nothing is known
        self._since_check = Stretch()
        self._began_s: float | None = None  # the stretch
        self._ended_s: float | None = None  # the batch before in this epoch and stretch, if any
        self._check_began_s = 0.0

    def on_train_epoch_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        self._ended_s = None  # between epochs checkpoints are written

    def on_train_batch_start(
        self, trainer: "pl.Trainer", pl_module: "pl.LightningModule", batch: Any, batch_idx: int
    ) -> None:
        asked_s, loader = time.monotonic(), trainer.train_dataloader
        wait = loader.wait if isinstance(loader, TrainLoader) else None
        if wait is not None and wait.starting:  # a process that reads: once in a training
            self._since_check, self._began_s, self._ended_s = Stretch(), None, None
        elif wait is not None:
            asked_s = wait.asked_s
            self._since_check.waited_s += wait.seconds
        if self._began_s is None:
            self._began_s = asked_s
        if self._ended_s is None:
            self._ended_s = asked_s
        self._since_check.callbacks_s += asked_s - self._ended_s

    def on_train_batch_end(
        self,
        trainer: "pl.Trainer",
        pl_module: "pl.LightningModule",
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        now_s = time.monotonic()
        # each process has as many samples, but for one that is left over
        samples = len(batch.class_id) * trainer.world_size if isinstance(batch, Batch) else 0
        if self._ended_s is not None:
            self._since_check.add_batch(now_s - self._ended_s, samples)
        self._ended_s = now_s

    def on_validation_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if pl_module.device.type == "cuda":
            torch.cuda.synchronize(pl_module.device)
        self._check_began_s = time.monotonic()

    def on_validation_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if trainer.sanity_checking or self._began_s is None:
            return
        done, self._since_check = self._since_check, Stretch()
        done.training_s = self._check_began_s - self._began_s
        done.check_s = time.monotonic() - self._check_began_s
        self._began_s = self._ended_s = None
        self.total += done
        log_numbers(trainer, done.numbers())
        self.findings.warn(trainer, slow_callbacks(done))
        within_epochs = trainer.val_check_interval != 1.0
        every = 0 if within_epochs else trainer.check_val_every_n_epoch or 0
        self.findings.warn(trainer, slow_check(done, every))

    def on_train_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        shown = trainer.is_global_zero and trainer.progress_bar_callback is not None
        if shown and self.total.batches:
            LOG.info(f"speed    {self.total.sentence()}")


def slow_callbacks(done: Stretch) -> Finding | None:
    """Judge what callbacks and loggers take between the batches."""
    share = done.callbacks_s / max(1e-9, done.training_s)
    a_batch_s = done.callbacks_s / max(1, done.batches)
    short = done.callbacks_s < LEAST_CALLBACKS_S or a_batch_s < LEAST_A_BATCH_S
    if share <= CALLBACKS_SHARE or short:
        return None
    return Finding(
        "callbacks",
        f"callbacks and loggers took {share:.0%} of the training, {a_batch_s * 1e3:.0f} ms after "
        "each batch. profile=phases names the slowest. callbacks.NAME=false leaves out one of "
        "leakdet's; let one of your own (callbacks.extra) work in fewer steps, and on a GPU read "
        "no number of it in every step.",
    )


def slow_check(done: Stretch, every: int) -> Finding | None:
    """Judge the time of a check; `every`: the epochs from one to the next, 0 if within epochs."""
    share = done.check_s / max(1e-9, done.training_s + done.check_s)
    if share <= CHECK_SHARE or done.check_s < LEAST_CHECK_S:
        return None
    times = math.ceil(done.check_s * (1 / WANTED_SHARE - 1) / max(1e-9, done.training_s))
    rarer = (
        f"trainer.check_val_every_n_epoch={every * times} brings that to about {WANTED_SHARE:.0%}"
        if every
        else "A larger trainer.val_check_interval makes checks rarer"
    )
    return Finding(
        "validation",
        f"a validation check took {done.check_s:.3g} s, {share:.0%} of the time since the one "
        f"before. {rarer}; patience counts checks. A val split may also be larger than needed "
        "(split.ratios of a build).",
    )
