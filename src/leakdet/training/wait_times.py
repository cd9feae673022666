"""The waits for batches in a period of a training, in bounded memory."""

import os
import re
import statistics
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from leakdet.loading.placement import host_used_share
from leakdet.loading.waiting import Wait
from leakdet.training import log_names

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
