"""Measures how long the network waits for its data, and warns where it is long."""

import time
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback

from leakdet._messages import LOG
from leakdet.loading.train_loader import TrainLoader
from leakdet.loading.waiting import Wait
from leakdet.training import log_names
from leakdet.training.callbacks.findings import Finding, Findings, log_numbers, place_of_windows
from leakdet.training.wait_times import SPIKE_S, MachineState, WaitTimes, cores

SPIKES_SHARE = 0.05
TIME_SHARE = 0.10
LEAST_SPIKES = 2  # another program may take the processor once or twice
LEAST_MEAN_S = 0.01  # below this it is bookkeeping around small steps
SAID, LOGGED = 5, 100  # spikes that are printed in a run, and logged between two checks
IN_MEMORY = "The windows are in memory, so no disk is the cause. "
ON_DEVICE = "The windows are on the accelerator, so no disk is the cause. "
OTHERS = "Other programs, or more threads than cores, may take the processor: see system/cpu_share"
BUSY = "More wants to run than there are cores: end other programs, lower threads"
ADVICE = {  # by where the windows are, and what the machine did in the spikes
    ("stream", ""): "Windows are read from the files: put the store on a local disk, raise "
    "data.workers, or leave more memory free so that they can be kept there (data.residency=auto).",
    ("stream", "disk"): "The disk was read meanwhile: put the store on a local disk, or leave more "
    "memory free so that the windows can be kept there (data.residency=auto).",
    ("stream", "work"): "This process unpacked and shuffled windows meanwhile: raise data.workers, "
    "which do it beside the training.",
    ("stream", "busy"): f"{BUSY} and data.workers.",
    ("ram", ""): f"{IN_MEMORY}{OTHERS}, and threads.",
    ("ram", "disk"): "The windows are in memory as a map of their file, and parts of it had to be "
    "read again: other programs leave too little memory. End some, or set data.residency=stream.",
    ("ram", "work"): f"{IN_MEMORY}Putting a batch together takes as long: with an accelerator "
    "data.residency=device does it there; on a CPU a smaller data.batch_size shortens each wait.",
    ("ram", "busy"): f"{IN_MEMORY}{BUSY}.",
    ("device", ""): f"{ON_DEVICE}{OTHERS}.",
    ("device", "busy"): f"{ON_DEVICE}{BUSY}.",
}


class LoaderWait(Callback):
    """Takes the wait for each batch from its loader, and sums up at each validation check.

    The host's clock is read; the device is not asked to finish. The first batch of each reading
    process waits for that process to start, which says nothing about the epoch: it is told apart.
    The first batches of later epochs count as waits, but not as spikes: their order is drawn, and
    reading begins anew.
    """

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.waits = WaitTimes()
        self._period_start_s = 0.0  # of the period that `waits` belong to
        self._started_s: float | None = None  # longest wait for a process to start, until logged
        self._said = 0

    def on_train_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        self._start_period()  # a run that is resumed within an epoch does not start it

    def on_train_epoch_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if not self.waits.count:
            self._start_period()

    def on_train_batch_start(
        self, trainer: "pl.Trainer", pl_module: "pl.LightningModule", batch: Any, batch_idx: int
    ) -> None:
        loader = trainer.train_dataloader
        if not isinstance(loader, TrainLoader) or loader.wait is None:
            return
        wait = loader.wait
        if wait.starting:
            self._started_s = max(self._started_s or 0.0, wait.seconds)
            self._start_period()
            return
        if self._started_s is not None:
            log_numbers(trainer, {log_names.WORKER_START: self._started_s})
            self._started_s = None
        self.waits.add(wait.seconds)
        if wait.seconds > SPIKE_S and not wait.opening:
            state = MachineState.now(wait)
            self.waits.add_spike(state)
            self._tell(trainer, wait, state)

    def _tell(self, trainer: "pl.Trainer", wait: Wait, state: MachineState) -> None:
        """Log a spike at its step; say it where spikes are not rare."""
        if self.waits.spikes <= LOGGED:
            numbers = {log_names.SPIKE: wait.seconds, log_names.SPIKE_BATCH: wait.batch + 1.0}
            state_numbers = dict(zip(log_names.SPIKE_STATE, state, strict=True))
            log_numbers(trainer, numbers | state_numbers)
        if self._said < SAID and many_spikes(self.waits) and trainer.is_global_zero:
            self._said += 1
            last = "; further ones are only logged" if self._said == SAID else ""
            LOG.info(
                f"epoch {trainer.current_epoch + 1}, batch {wait.batch + 1}: waited "
                f"{wait.seconds * 1e3:.0f} ms for data ({state.words()}){last}"
            )

    def on_validation_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if self.waits.count and not trainer.sanity_checking:
            period_s = time.monotonic() - self._period_start_s
            place = place_of_windows(pl_module)
            self.findings.warn(trainer, long_waits(self.waits, period_s, place))
            log_numbers(trainer, self.waits.numbers(period_s))
        self.waits = WaitTimes()

    def on_validation_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        self._start_period()

    def _start_period(self) -> None:
        self._period_start_s = time.monotonic()


def many_spikes(waits: WaitTimes) -> bool:
    return waits.spikes > max(LEAST_SPIKES, SPIKES_SHARE * waits.count)


def long_waits(waits: WaitTimes, period_s: float, place: str = "") -> Finding | None:
    """Judge waits: spikes in more than 5 % of the batches, or over 10 % of the period waited.

    The advice depends on the `place` of the windows, as in `Residency.kind`, and on what the
    machine did in the spikes.
    """
    n = waits.numbers(period_s)
    mean_s = n[log_names.WAIT_MEAN]
    long = n[log_names.WAIT_SHARE] > TIME_SHARE and mean_s > LEAST_MEAN_S
    if not (many_spikes(waits) or long):
        return None
    apart = n.get(log_names.WAIT_SPACING)
    spacing = "" if apart is None else f", typically {apart:g} batches apart"
    worst = ", ".join(f"{wait * 1e3:.0f}" for wait in waits.worst_s)
    meanwhile = f" (in them on average {waits.state.words()})" if waits.spikes else ""
    cause = waits.state.cause(cores(), place == "stream") if waits.spikes else ""
    advice = ADVICE.get((place, cause)) or ADVICE.get((place, ""), f"{OTHERS}.")
    return Finding(
        "loader",
        f"the network waited for data {n[log_names.WAIT_SHARE]:.0%} of the time: mean "
        f"{mean_s * 1e3:.1f} ms, median {n[log_names.WAIT_MEDIAN] * 1e3:.1f} ms, p95 "
        f"{n[log_names.WAIT_P95] * 1e3:.1f} ms, {waits.spikes} of {waits.count} batches over "
        f"{SPIKE_S * 1e3:.0f} ms{spacing}{meanwhile}; worst five {worst} ms. {advice}",
    )
