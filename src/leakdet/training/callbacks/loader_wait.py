"""Does the network wait for its data? The time between one batch's end and the next one's start."""

import itertools
import statistics
import time
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback

from leakdet.detection.diagnostics import Finding
from leakdet.training import names
from leakdet.training.callbacks.findings import Findings

SPIKE_S = 0.05
SPIKES_SHARE = 0.05
EPOCH_SHARE = 0.10
LEAST_SPIKES = 2  # another program may take the processor once or twice
LEAST_MEAN_S = 0.01  # below this it is the loop's own bookkeeping around small steps


class LoaderWait(Callback):
    """Measures on the host clock; the device is not asked to finish."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.waits_s: list[float] = []
        self._ended: float | None = None
        self._epoch_started = 0.0

    def on_train_epoch_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        self.waits_s, self._ended = [], None
        self._epoch_started = time.monotonic()

    def on_train_batch_start(
        self, trainer: "pl.Trainer", pl_module: "pl.LightningModule", batch: Any, batch_idx: int
    ) -> None:
        if self._ended is not None:
            self.waits_s.append(time.monotonic() - self._ended)

    def on_train_batch_end(
        self, trainer: "pl.Trainer", pl_module: "pl.LightningModule", outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._ended = time.monotonic()

    def on_validation_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if self.waits_s and not trainer.sanity_checking:
            found = waits(self.waits_s, time.monotonic() - self._epoch_started)
            self.findings.say(trainer, found)
            self._log(trainer)
        self._ended = None  # a validation check between two batches is no waiting
        self.waits_s = []

    def _log(self, trainer: "pl.Trainer") -> None:
        total = sum(self.waits_s)
        numbers = {
            names.WAIT_MEAN: total / len(self.waits_s),
            names.WAIT_P95: quantile(self.waits_s, 0.95),
            names.WAIT_SHARE: total / max(1e-9, time.monotonic() - self._epoch_started),
        }
        for logger in trainer.loggers:
            logger.log_metrics(numbers, trainer.global_step)


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def waits(waits_s: list[float], epoch_s: float) -> list[Finding]:
    """Spikes in more than 5 % of the batches, or more than 10 % of the epoch spent waiting."""
    spikes = [index for index, wait in enumerate(waits_s) if wait > SPIKE_S]
    total, mean = sum(waits_s), sum(waits_s) / len(waits_s)
    many = len(spikes) > max(LEAST_SPIKES, SPIKES_SHARE * len(waits_s))
    long = total > EPOCH_SHARE * epoch_s and mean > LEAST_MEAN_S
    if not (many or long):
        return []
    worst = sorted(waits_s, reverse=True)[:5]
    gaps = [b - a for a, b in itertools.pairwise(spikes)]
    spacing = f", typically {statistics.median(gaps):g} batches apart" if gaps else ""
    return [
        (
            "loader",
            f"the network waited for data {total / max(1e-9, epoch_s):.0%} of the epoch: mean {mean * 1e3:.1f} ms, median "
            f"{statistics.median(waits_s) * 1e3:.1f} ms, p95 {quantile(waits_s, 0.95) * 1e3:.1f} ms, {len(spikes)} of "
            f"{len(waits_s)} batches over {SPIKE_S * 1e3:.0f} ms{spacing}; worst five "
            f"{', '.join(f'{wait * 1e3:.0f}' for wait in worst)} ms. Put the store on a local disk, or leave more memory free "
            "so that it can be held there.",
        )
    ]
