"""Does the network wait for its data? The time between one batch's end and the next one's start."""

import itertools
import statistics
import time
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback

from leakdet.training import log_names
from leakdet.training.callbacks.findings import Findings
from leakdet.training.callbacks.log_numbers import log_numbers
from leakdet.training.diagnostics import Finding

SPIKE_S = 0.05
SPIKES_SHARE = 0.05
TIME_SHARE = 0.10
LEAST_SPIKES = 2  # another program may take the processor once or twice
LEAST_MEAN_S = 0.01  # below this it is the loop's own bookkeeping around small steps


class LoaderWait(Callback):
    """Measures on the host clock; the device is not asked to finish. Counted from one validation check to the next."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.waits_s: list[float] = []
        self._ended: float | None = None
        self._since = 0.0  # when the time began of which `waits_s` are a part

    def on_train_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        self._begin()  # a run that is resumed within an epoch does not start it

    def on_train_epoch_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if not self.waits_s:
            self._begin()
        # an epoch's first batch takes the longest: its order is drawn, its files are opened
        self._ended = time.monotonic()

    def on_train_batch_start(
        self, trainer: "pl.Trainer", pl_module: "pl.LightningModule", batch: Any, batch_idx: int
    ) -> None:
        if self._ended is not None:
            self.waits_s.append(time.monotonic() - self._ended)

    def on_train_batch_end(
        self,
        trainer: "pl.Trainer",
        pl_module: "pl.LightningModule",
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        self._ended = time.monotonic()

    def on_validation_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if self.waits_s and not trainer.sanity_checking:
            period_s = time.monotonic() - self._since
            self.findings.say(trainer, waits(self.waits_s, period_s))
            log_numbers(trainer, wait_numbers(self.waits_s, period_s))
        self.waits_s = []

    def on_validation_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        self._begin()
        # the checkpoints that are written now, before the next batch, are no waiting for data
        self._ended = None

    def _begin(self) -> None:
        self._since = self._ended = time.monotonic()


def wait_numbers(waits_s: list[float], period_s: float) -> dict[str, float]:
    """What is logged of the waits in a time of `period_s`."""
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
    return [index for index, wait in enumerate(waits_s) if wait > SPIKE_S]


def spacing_of(waits_s: list[float]) -> float | None:
    """Median of the batches from one spike to the next; None where there are not two."""
    gaps = [b - a for a, b in itertools.pairwise(spikes_of(waits_s))]
    return float(statistics.median(gaps)) if gaps else None


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def waits(waits_s: list[float], period_s: float) -> list[Finding]:
    """Spikes in more than 5 % of the batches, or more than 10 % of the time spent waiting."""
    spikes = spikes_of(waits_s)
    total, mean = sum(waits_s), sum(waits_s) / len(waits_s)
    many = len(spikes) > max(LEAST_SPIKES, SPIKES_SHARE * len(waits_s))
    long = total > TIME_SHARE * period_s and mean > LEAST_MEAN_S
    if not (many or long):
        return []
    worst = sorted(waits_s, reverse=True)[:5]
    apart = spacing_of(waits_s)
    spacing = "" if apart is None else f", typically {apart:g} batches apart"
    return [
        (
            "loader",
            f"the network waited for data {total / max(1e-9, period_s):.0%} of the time: mean {mean * 1e3:.1f} ms, median "
            f"{statistics.median(waits_s) * 1e3:.1f} ms, p95 {quantile(waits_s, 0.95) * 1e3:.1f} ms, {len(spikes)} of "
            f"{len(waits_s)} batches over {SPIKE_S * 1e3:.0f} ms{spacing}; worst five "
            f"{', '.join(f'{wait * 1e3:.0f}' for wait in worst)} ms. Put the store on a local disk, or leave more memory free "
            "so that it can be held there.",
        )
    ]
