"""Measures how long the network waits for its data, and warns where it is long."""

import itertools
import statistics
import time
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback

from leakdet.training import log_names
from leakdet.training.callbacks.findings import Finding, Findings, log_numbers
from leakdet.training.module import LeakModule

SPIKE_S = 0.05
SPIKES_SHARE = 0.05
TIME_SHARE = 0.10
LEAST_SPIKES = 2  # another program may take the processor once or twice
LEAST_MEAN_S = 0.01  # below this it is the loop's own bookkeeping around small steps
BUSY = "Other programs, or more threads than cores, may take the processor: see system/cpu_share"
ADVICE = {  # by where the windows are
    "stream": "Windows are read from the files: put the store on a local disk, raise data.workers, "
    "or leave more memory free so that they can be kept there (data.residency=auto).",
    "ram": f"The windows are in memory, so no disk is the cause. {BUSY}, and threads.",
    "device": f"The windows are on the accelerator, so no disk is the cause. {BUSY}.",
}


class LoaderWait(Callback):
    """Measures from one batch's end to the next one's start, and sums up at each validation check.

    The host's clock is read; the device is not asked to finish. The first batch of each reading
    process waits for that process to start, which says nothing about the epoch: it is told apart.
    """

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.waits_s: list[float] = []
        self._batch_end_s: float | None = None
        self._period_start_s = 0.0  # of the period that `waits_s` belong to
        self._starting = 0  # first batches of reading processes that are still to come
        self._started_s = 0.0  # longest wait for one of them

    def on_train_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if isinstance(pl_module, LeakModule) and pl_module.data.streams:
            self._starting = pl_module.config.data.workers
        self._start_period()  # a run that is resumed within an epoch does not start it

    def on_train_epoch_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if not self.waits_s:
            self._start_period()
        # an epoch's first batch takes the longest: its order is drawn, its files are opened
        self._batch_end_s = time.monotonic()

    def on_train_batch_start(
        self, trainer: "pl.Trainer", pl_module: "pl.LightningModule", batch: Any, batch_idx: int
    ) -> None:
        if self._batch_end_s is None:
            return
        waited_s = time.monotonic() - self._batch_end_s
        if self._starting == 0:
            self.waits_s.append(waited_s)
            return
        self._starting -= 1
        self._started_s = max(self._started_s, waited_s)
        self._start_period()
        if self._starting == 0:
            log_numbers(trainer, {log_names.WORKER_START: self._started_s})

    def on_train_batch_end(
        self,
        trainer: "pl.Trainer",
        pl_module: "pl.LightningModule",
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        self._batch_end_s = time.monotonic()

    def on_validation_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if self.waits_s and not trainer.sanity_checking:
            period_s = time.monotonic() - self._period_start_s
            place = pl_module.data.residency.kind if isinstance(pl_module, LeakModule) else ""
            self.findings.warn(trainer, long_waits(self.waits_s, period_s, place))
            log_numbers(trainer, wait_numbers(self.waits_s, period_s))
        self.waits_s = []

    def on_validation_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        self._start_period()
        # checkpoints are written now, before the next batch: not a wait for data
        self._batch_end_s = None

    def _start_period(self) -> None:
        self._period_start_s = self._batch_end_s = time.monotonic()


def wait_numbers(waits_s: list[float], period_s: float) -> dict[str, float]:
    """The numbers that are logged of the waits in a period of `period_s` seconds."""
    worst = sorted(waits_s, reverse=True)[:5]
    numbers = {
        log_names.WAIT_COUNT: float(len(waits_s)),
        log_names.WAIT_SPIKES: float(len(spikes_of(waits_s))),
        log_names.WAIT_MEAN: statistics.fmean(waits_s),
        log_names.WAIT_MEDIAN: statistics.median(waits_s),
        log_names.WAIT_P95: quantile(waits_s, 0.95),
        log_names.WAIT_MAX: worst[0],
        **dict(zip(log_names.WAIT_WORST, worst[1:], strict=False)),
        log_names.WAIT_SHARE: sum(waits_s) / max(1e-9, period_s),
    }
    spacing = spacing_of(waits_s)
    return numbers if spacing is None else {**numbers, log_names.WAIT_SPACING: spacing}


def spikes_of(waits_s: list[float]) -> list[int]:
    """The batches whose wait was longer than SPIKE_S."""
    return [index for index, wait in enumerate(waits_s) if wait > SPIKE_S]


def spacing_of(waits_s: list[float]) -> float | None:
    """Median number of batches from one spike to the next; None if there are fewer than two."""
    gaps = [b - a for a, b in itertools.pairwise(spikes_of(waits_s))]
    return float(statistics.median(gaps)) if gaps else None


def quantile(values: list[float], share: float) -> float:
    """The value that `share` of them lie below, without interpolation."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def long_waits(waits_s: list[float], period_s: float, place: str = "") -> Finding | None:
    """Judge waits: spikes in more than 5 % of the batches, or over 10 % of the period waited.

    The advice depends on the `place` of the windows, as in `Residency.kind`.
    """
    n = wait_numbers(waits_s, period_s)
    spikes, mean_s = int(n[log_names.WAIT_SPIKES]), n[log_names.WAIT_MEAN]
    many = spikes > max(LEAST_SPIKES, SPIKES_SHARE * len(waits_s))
    long = n[log_names.WAIT_SHARE] > TIME_SHARE and mean_s > LEAST_MEAN_S
    if not (many or long):
        return None
    apart = n.get(log_names.WAIT_SPACING)
    spacing = "" if apart is None else f", typically {apart:g} batches apart"
    worst = ", ".join(f"{wait * 1e3:.0f}" for wait in sorted(waits_s, reverse=True)[:5])
    return Finding(
        "loader",
        f"the network waited for data {n[log_names.WAIT_SHARE]:.0%} of the time: mean "
        f"{mean_s * 1e3:.1f} ms, median {n[log_names.WAIT_MEDIAN] * 1e3:.1f} ms, p95 "
        f"{n[log_names.WAIT_P95] * 1e3:.1f} ms, {spikes} of {len(waits_s)} batches over "
        f"{SPIKE_S * 1e3:.0f} ms{spacing}; worst five {worst} ms. {ADVICE.get(place, BUSY + '.')}",
    )
