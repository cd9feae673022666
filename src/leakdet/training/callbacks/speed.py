"""Speed of a training: times of its batches, waits and checks, the machine's use, and judges."""

import math
import statistics
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback

from leakdet.config import CallbacksConfig
from leakdet.core.messages import LOG, log_detail
from leakdet.loading.loaders import TrainLoader, Wait
from leakdet.loading.samples import Batch
from leakdet.training import log_names
from leakdet.training.callbacks.diagnostics import Finding, Findings, log_numbers
from leakdet.training.callbacks.machine import (
    FULL_RAM,
    MachineState,
    UseReadings,
    cores,
    full_gpu,
    full_memory,
    idle_gpu,
    means,
    own_bytes,
)
from leakdet.training.memory import read_gpu_memory
from leakdet.training.module import LeakModule

KEPT = 10_000  # latest durations, for median and p95
WORST = 5


@dataclass
class Times:
    """Durations: number, sum and spread of all, quantiles of the latest KEPT."""

    count: int = 0
    total_s: float = 0.0
    squares: float = 0.0
    worst_s: list[float] = field(default_factory=list)  # the longest first
    latest_s: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))

    def add(self, seconds: float) -> None:
        """Count a duration."""
        self.count += 1
        self.total_s += seconds
        self.squares += seconds**2
        self.latest_s.append(seconds)
        if len(self.worst_s) < WORST or seconds > self.worst_s[-1]:
            self.worst_s = sorted([*self.worst_s, seconds], reverse=True)[:WORST]

    def join(self, other: "Times") -> None:
        """Add the number, sum and spread of others."""
        self.count += other.count
        self.total_s += other.total_s
        self.squares += other.squares

    @property
    def mean_s(self) -> float:
        return self.total_s / max(1, self.count)

    @property
    def deviation_s(self) -> float:
        return math.sqrt(max(0.0, self.squares / max(1, self.count) - self.mean_s**2))


def quantile(values: "deque[float] | list[float]", share: float) -> float:
    """The value that `share` of them lie below, without interpolation."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


SPIKE_S = 0.05  # waits longer than this are spikes


@dataclass
class Interval:
    """Times of the training from one check to the next, and of the check that ends it."""

    began_s: float | None = None  # on the clock of time.monotonic
    training_s: float = 0.0
    check_s: float = 0.0
    callbacks_s: float = 0.0  # and loggers, between the batches
    samples: int = 0
    batches: Times = field(default_factory=Times)  # from one batch's end to the next one's
    waits: Times = field(default_factory=Times)
    spikes: int = 0
    gaps: deque[int] = field(default_factory=lambda: deque(maxlen=KEPT))  # in batches
    _last_spike: int | None = None
    _states: list[float] = field(default_factory=lambda: [0.0] * len(MachineState._fields))

    def add_spike(self, state: MachineState) -> None:
        """Count the latest wait as a spike, which was in this state of the machine."""
        if self._last_spike is not None:
            self.gaps.append(self.waits.count - self._last_spike)
        self._last_spike = self.waits.count
        self.spikes += 1
        self._states = [total + value for total, value in zip(self._states, state, strict=True)]

    def join(self, other: "Interval") -> None:
        """Add the seconds and counts of another interval, without its spikes."""
        for name in ("training_s", "check_s", "callbacks_s", "samples"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.batches.join(other.batches)
        self.waits.join(other.waits)

    @property
    def state(self) -> MachineState:
        """Mean state of the machine in the spikes."""
        return MachineState(*(total / max(1, self.spikes) for total in self._states))

    def wait_numbers(self) -> dict[str, float]:
        """What is logged of the waits, after one or more."""
        waits = self.waits
        numbers = {
            log_names.WAIT_COUNT: float(waits.count),
            log_names.WAIT_SPIKES: float(self.spikes),
            log_names.WAIT_MEAN: waits.mean_s,
            log_names.WAIT_MEDIAN: statistics.median(waits.latest_s),
            log_names.WAIT_P95: quantile(waits.latest_s, 0.95),
            log_names.WAIT_MAX: waits.worst_s[0],
            **dict(zip(log_names.WAIT_WORST, waits.worst_s[1:], strict=False)),
            log_names.WAIT_SHARE: waits.total_s / max(1e-9, self.training_s),
        }
        if self.gaps:
            numbers[log_names.WAIT_SPACING] = float(statistics.median(self.gaps))
        return numbers

    def speed_numbers(self) -> dict[str, float]:
        """What is logged of the speed, after one batch or more and the check."""
        training_s, batches = max(1e-9, self.training_s), self.batches
        return {
            log_names.SAMPLES_PER_S: self.samples / training_s,
            log_names.BATCHES_PER_S: batches.count / training_s,
            log_names.BATCH_MEAN: batches.mean_s,
            log_names.BATCH_STD: batches.deviation_s,
            log_names.BATCH_P95: quantile(batches.latest_s, 0.95),
            log_names.BATCH_MAX: batches.worst_s[0],
            log_names.CALLBACKS_SHARE: self.callbacks_s / training_s,
            log_names.CHECK_TIME: self.check_s,
            log_names.CHECK_SHARE: self.check_s / (training_s + self.check_s),
        }

    def sentence(self) -> str:
        """The speed in a line."""
        training_s, batches = max(1e-9, self.training_s), self.batches
        return (
            f"{self.samples / training_s:,.0f} samples/s, {batches.count / training_s:.3g} "
            f"batches/s (a batch {batches.mean_s * 1e3:,.1f} ± {batches.deviation_s * 1e3:,.1f} "
            f"ms); waiting for data {self.waits.total_s / training_s:.0%}, callbacks and loggers "
            f"{self.callbacks_s / training_s:.0%}; besides, checks took "
            f"{self.check_s / (training_s + self.check_s):.0%} of the time"
        )


SPIKES_SHARE = 0.05
TIME_SHARE = 0.10
LEAST_SPIKES = 2  # another program may take the processor once or twice
LEAST_MEAN_S = 0.01  # below this it is bookkeeping around small steps
PRINTED, LOGGED = 5, 100  # spikes that are printed in a run, and logged between two checks
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


def many_spikes(done: Interval) -> bool:
    return done.spikes > max(LEAST_SPIKES, SPIKES_SHARE * done.waits.count)


def long_waits(done: Interval, place: str = "") -> Finding | None:
    """Judge waits: spikes in more than 5 % of the batches, or over 10 % of the time waited.

    The advice depends on the `place` of the windows, as in `Residency.kind`, and on what the
    machine did in the spikes.
    """
    n, mean_s = done.wait_numbers(), done.waits.mean_s
    long = n[log_names.WAIT_SHARE] > TIME_SHARE and mean_s > LEAST_MEAN_S
    if not (many_spikes(done) or long):
        return None
    apart = n.get(log_names.WAIT_SPACING)
    spacing = "" if apart is None else f", typically {apart:g} batches apart"
    worst = ", ".join(f"{wait * 1e3:.0f}" for wait in done.waits.worst_s)
    meanwhile = f" (in them on average {done.state.words()})" if done.spikes else ""
    cause = done.state.cause(cores(), place == "stream") if done.spikes else ""
    advice = ADVICE.get((place, cause)) or ADVICE.get((place, ""), f"{OTHERS}.")
    return Finding(
        "loader",
        f"the network waited for data {n[log_names.WAIT_SHARE]:.0%} of the time: mean "
        f"{mean_s * 1e3:.1f} ms, median {n[log_names.WAIT_MEDIAN] * 1e3:.1f} ms, p95 "
        f"{n[log_names.WAIT_P95] * 1e3:.1f} ms, {done.spikes} of {done.waits.count} batches over "
        f"{SPIKE_S * 1e3:.0f} ms{spacing}{meanwhile}; worst five {worst} ms. {advice}",
    )


CALLBACKS_SHARE, LEAST_CALLBACKS_S, LEAST_A_BATCH_S = 0.20, 1.0, 0.005
CHECK_SHARE, LEAST_CHECK_S = 0.50, 5.0
WANTED_SHARE = 0.20  # of the time, to which the advice brings checks


def slow_callbacks(done: Interval) -> Finding | None:
    """Judge what callbacks and loggers take between the batches."""
    share = done.callbacks_s / max(1e-9, done.training_s)
    a_batch_s = done.callbacks_s / max(1, done.batches.count)
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


def slow_check(done: Interval, every: int) -> Finding | None:
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


LEAST_READINGS = 5  # of the GPU, before it is called idle


class Speed(Callback):
    """Times batches, waits and checks by the host's clock, and reads the machine's use.

    Each switch leaves out its part: step_times, loader_wait, system_use. Comes before all other
    callbacks, so that what these do between two batches is measured. All is summed up at each
    check; a training that shows its progress ends with a line on its speed.

    The first batch of each reading process waits for that process to start, which says nothing
    about the epoch: it is told apart. The first batches of later epochs count as waits, but not as
    spikes: their order is drawn, and reading begins anew.

    Lightning's ThroughputMonitor waits for the GPU in every step, warns where a module does not
    tell its FLOPs, and takes every batch to be as large as the first. Here a GPU is waited for
    before a check only; until then it keeps the pace, since few steps can be queued.
    """

    def __init__(self, findings: Findings, on: CallbacksConfig) -> None:
        self.findings, self.on = findings, on
        self.interval = Interval()  # since the check before
        self.total = Interval()  # of this process: before a resume nothing is known
        self.use = UseReadings()
        self._ended_s: float | None = None  # the batch before in this epoch and interval, if any
        self._check_began_s = 0.0
        self._started_s: float | None = None  # longest wait for a process to start, until logged
        self._printed = 0
        self._unjudged: list[dict[str, float]] = []  # readings of a GPU

    def on_train_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if self.on.system_use:
            self.use.start(pl_module.device, says=trainer.is_global_zero)

    def on_train_epoch_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        self._ended_s = None  # between epochs checkpoints are written

    def on_train_batch_start(
        self, trainer: "pl.Trainer", pl_module: "pl.LightningModule", batch: Any, batch_idx: int
    ) -> None:
        now_s, loader = time.monotonic(), trainer.train_dataloader
        wait = loader.wait if isinstance(loader, TrainLoader) else None
        if wait is not None and wait.starting:  # a process that reads: once in a training
            self._started_s = max(self._started_s or 0.0, wait.seconds)
            self.interval, self._ended_s, wait = Interval(), None, None
        asked_s = now_s if wait is None else wait.asked_s
        if self.interval.began_s is None:
            self.interval.began_s = asked_s
        if self._ended_s is None:
            self._ended_s = asked_s
        self.interval.callbacks_s += asked_s - self._ended_s
        if wait is not None:
            self.interval.waits.add(wait.seconds)
            if self.on.loader_wait:
                self._log_wait(trainer, wait)

    def _log_wait(self, trainer: "pl.Trainer", wait: Wait) -> None:
        """Log the start of reading processes, once, and spikes; print spikes that are not rare."""
        if self._started_s is not None:
            log_numbers(trainer, {log_names.WORKER_START: self._started_s})
            self._started_s = None
        if wait.seconds <= SPIKE_S or wait.opening:
            return
        state = MachineState.now(wait)
        self.interval.add_spike(state)
        if self.interval.spikes <= LOGGED:
            numbers = {log_names.SPIKE: wait.seconds, log_names.SPIKE_BATCH: wait.batch + 1.0}
            state_numbers = dict(zip(log_names.SPIKE_STATE, state, strict=True))
            log_numbers(trainer, numbers | state_numbers)
        if self._printed < PRINTED and many_spikes(self.interval) and trainer.is_global_zero:
            self._printed += 1
            last = "; further ones are only logged" if self._printed == PRINTED else ""
            LOG.info(
                f"epoch {trainer.current_epoch + 1}, batch {wait.batch + 1}: waited "
                f"{wait.seconds * 1e3:.0f} ms for data ({state.words()}){last}"
            )

    def on_train_batch_end(
        self,
        trainer: "pl.Trainer",
        pl_module: "pl.LightningModule",
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        now_s = time.monotonic()
        if isinstance(batch, Batch):  # each process has as many, but for one that is left over
            self.interval.samples += len(batch.class_id) * trainer.world_size
        if self._ended_s is not None:
            self.interval.batches.add(now_s - self._ended_s)
        self._ended_s = now_s

    def on_validation_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if trainer.sanity_checking:
            return
        if pl_module.device.type == "cuda":
            torch.cuda.synchronize(pl_module.device)
        self._check_began_s, done = time.monotonic(), self.interval
        if done.began_s is not None:
            done.training_s = self._check_began_s - done.began_s
        place = pl_module.data.residency.kind if isinstance(pl_module, LeakModule) else ""
        if self.on.loader_wait and done.waits.count:
            self.findings.warn(trainer, long_waits(done, place))
            log_numbers(trainer, done.wait_numbers())
        if self.on.system_use:
            self._log_use(trainer, pl_module.device, place)

    def _log_use(self, trainer: "pl.Trainer", device: torch.device, place: str) -> None:
        readings, memory = self.use.take(), read_gpu_memory(device)
        log_numbers(trainer, means(readings) | (memory.numbers() if memory else {}))
        fullest = max(row[log_names.RAM_USE] for row in readings)
        if fullest > FULL_RAM:
            self.findings.warn(trainer, full_memory(fullest, own_bytes(), place))
        if memory is not None:
            self.findings.warn(trainer, full_gpu(memory, place))
        self._unjudged += [row for row in readings if log_names.GPU_USE in row]
        if len(self._unjudged) >= LEAST_READINGS:  # which short epochs give together
            use, self._unjudged = means(self._unjudged), []
            finding = idle_gpu(use[log_names.GPU_USE], use[log_names.CPU_USE])
            self.findings.warn(trainer, finding)

    def on_validation_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if trainer.sanity_checking or self.interval.began_s is None:
            return
        done, self.interval, self._ended_s = self.interval, Interval(), None
        done.check_s = time.monotonic() - self._check_began_s
        self.total.join(done)
        if self.on.step_times:
            numbers = done.speed_numbers()
            if isinstance(pl_module, LeakModule):
                recordings = pl_module.data.splits.val.recordings
                numbers[log_names.CHECK_RECORDINGS_PER_S] = recordings / max(1e-9, done.check_s)
            log_numbers(trainer, numbers)
            self.findings.warn(trainer, slow_callbacks(done))
            within_epochs = trainer.val_check_interval != 1.0
            every = 0 if within_epochs else trainer.check_val_every_n_epoch or 0
            self.findings.warn(trainer, slow_check(done, every))

    def on_train_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        shown = trainer.is_global_zero and trainer.progress_bar_callback is not None
        if self.on.step_times and shown and self.total.batches.count:
            log_detail(f"speed    {self.total.sentence()}")

    def teardown(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule", stage: str) -> None:
        self.use.stop()

    def on_exception(
        self, trainer: "pl.Trainer", pl_module: "pl.LightningModule", exception: BaseException
    ) -> None:
        self.use.stop()  # Lightning tears no callback down after an exception
