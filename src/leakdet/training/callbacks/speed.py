"""Logs how fast a training is and how long it waits for data; warns of what is slow."""

import math
import os
import re
import statistics
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback

from leakdet.core.messages import LOG
from leakdet.loading.loaders import TrainLoader, Wait
from leakdet.loading.memory import host_used_share
from leakdet.loading.samples import Batch
from leakdet.training import log_names
from leakdet.training.callbacks.diagnostics import Finding, Findings, log_numbers, place_of_windows

SPIKE_S = 0.05
KEPT = 10_000  # latest waits, for median and p95
WORST = 5
READS_MB, PAGE_FAULTS = 1.0, 10  # in a spike, from which a disk is its cause
STALLED = 0.2  # of the time
OWN_WORK = 0.8  # processor seconds per second waited
OVERLOAD = 1.5  # processes that run or want to, per core: a training alone fills the cores


class MachineState(NamedTuple):
    """What the machine and this process did during a spike, or means over several."""

    load: float  # processes that run or wait for a core or a disk: mean of the last minute
    ram: float  # used share
    cpu: float  # processor seconds of this process per second waited
    page_faults: float
    read_mb: float
    disk_stall: float  # share of the last ten seconds in which some process waited for a disk

    @classmethod
    def now(cls, wait: Wait) -> "MachineState":
        """The state at the end of this wait."""
        cpu = wait.cpu_s / max(1e-9, wait.seconds)
        of_process = (cpu, float(wait.page_faults), wait.read_bytes / 1e6)
        return cls(os.getloadavg()[0], host_used_share(), *of_process, disk_stall())

    def words(self) -> str:
        return (
            f"load {self.load:.1f} on {cores()} cores, memory {self.ram:.0%} used, "
            f"{self.page_faults:.0f} page faults, {self.read_mb:.1f} MB read, disk waits "
            f"{self.disk_stall:.0%}"
        )

    def cause(self, cores: int, streams: bool) -> str:
        """What made the wait long: "disk", "work" of this process, "busy" cores, or "" if unknown.

        `streams`: windows are read from files, maybe by other processes, whose reads only the
        machine's disk waits show.
        """
        stalled = streams and self.disk_stall >= STALLED
        if stalled or self.read_mb >= READS_MB or self.page_faults >= PAGE_FAULTS:
            return "disk"
        if self.cpu >= OWN_WORK:
            return "work"
        return "busy" if self.load > OVERLOAD * cores else ""


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))


def disk_stall(path: Path = Path("/proc/pressure/io")) -> float:
    """Share of the last ten seconds in which some process waited for a disk; 0 if untold."""
    try:
        found = re.search(r"some avg10=([\d.]+)", path.read_text())
    except OSError:  # a kernel that does not count it
        return 0.0
    return float(found[1]) / 100 if found else 0.0


@dataclass
class WaitTimes:
    """Waits, and the spikes among them: waits longer than SPIKE_S."""

    count: int = 0
    total_s: float = 0.0
    spikes: int = 0
    worst_s: list[float] = field(default_factory=list)  # the longest first
    latest_s: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    gaps: deque[int] = field(default_factory=lambda: deque(maxlen=KEPT))  # in batches
    _last_spike: int | None = None
    _states: list[float] = field(default_factory=lambda: [0.0] * len(MachineState._fields))

    def add(self, seconds: float) -> None:
        """Count a wait."""
        self.count += 1
        self.total_s += seconds
        self.latest_s.append(seconds)
        if len(self.worst_s) < WORST or seconds > self.worst_s[-1]:
            self.worst_s = sorted([*self.worst_s, seconds], reverse=True)[:WORST]

    def add_spike(self, state: MachineState) -> None:
        """Count the latest wait as a spike, which was in this state of the machine."""
        if self._last_spike is not None:
            self.gaps.append(self.count - self._last_spike)
        self._last_spike = self.count
        self.spikes += 1
        self._states = [total + one for total, one in zip(self._states, state, strict=True)]

    @property
    def state(self) -> MachineState:
        """Mean state of the machine in the spikes."""
        return MachineState(*(total / max(1, self.spikes) for total in self._states))

    def numbers(self, period_s: float) -> dict[str, float]:
        """The numbers that are logged of the waits in a period of `period_s` seconds."""
        numbers = {
            log_names.WAIT_COUNT: float(self.count),
            log_names.WAIT_SPIKES: float(self.spikes),
            log_names.WAIT_MEAN: self.total_s / max(1, self.count),
            log_names.WAIT_MEDIAN: statistics.median(self.latest_s),
            log_names.WAIT_P95: quantile(self.latest_s, 0.95),
            log_names.WAIT_MAX: self.worst_s[0],
            **dict(zip(log_names.WAIT_WORST, self.worst_s[1:], strict=False)),
            log_names.WAIT_SHARE: self.total_s / max(1e-9, period_s),
        }
        if self.gaps:
            numbers[log_names.WAIT_SPACING] = float(statistics.median(self.gaps))
        return numbers


def quantile(values: "deque[float] | list[float]", share: float) -> float:
    """The value that `share` of them lie below, without interpolation."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


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
