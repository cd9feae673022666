"""The machine beside a training: its state in a long wait, readings of its use, and judges."""

import contextlib
import os
import re
import statistics
import threading
from collections import deque
from functools import cache
from pathlib import Path
from typing import NamedTuple

import psutil
import torch

from leakdet.core.messages import LOG
from leakdet.loading.loaders import Wait
from leakdet.loading.memory import host_used_share
from leakdet.training import log_names
from leakdet.training.callbacks.diagnostics import Finding
from leakdet.training.memory import GpuMemory, why_no_gpu_use

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
        line = re.search(r"some avg10=([\d.]+)", path.read_text())
    except OSError:  # a kernel that does not count it
        return 0.0
    return float(line[1]) / 100 if line else 0.0


EVERY_S = 1.0
IDLE_GPU = 0.30
READINGS = 10_000  # the latest that are kept between two checks
BUSY_CPU = 0.90
FULL_GPU, FULL_RAM = 0.95, 0.90
OTHERS = 0.10  # of the GPU's memory, above which other programs are named
CACHED = 0.8  # most in tensors at once, of what was reserved: below, much of it was a cache


class UseReadings:
    """Readings of the machine's use, which a thread of its own takes.

    Lightning's DeviceStatsMonitor reads in the training thread, twice in each step that is logged,
    all counts of torch's allocator, but neither how busy a GPU is nor what other programs take.
    """

    def __init__(self) -> None:
        self.readings: deque[dict[str, float]] = deque(maxlen=READINGS)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, device: torch.device, says: bool) -> None:
        """Begin to read; `says`: log what keeps the use of a GPU from being read."""
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        obstacle = why_no_gpu_use(device)
        if obstacle and says:
            _say_once(f"gpu use  {obstacle}")
        self._stopping.clear()
        self._thread = threading.Thread(
            target=self._read,
            args=(torch.device("cpu") if obstacle else device,),
            name="system use",
            daemon=True,
        )
        self._thread.start()

    def _read(self, device: torch.device) -> None:
        psutil.cpu_percent()
        while not self._stopping.wait(EVERY_S):
            self.readings.append(measured(device))

    def take(self) -> list[dict[str, float]]:
        """The readings since the last call, or one now where there was no time for any."""
        taken, self.readings = self.readings, deque(maxlen=READINGS)
        return list(taken) or [measured(torch.device("cpu"))]

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None


def means(readings: list[dict[str, float]]) -> dict[str, float]:
    """The mean of each number over the readings that have it."""
    return {
        name: statistics.fmean(row[name] for row in readings if name in row)
        for name in dict.fromkeys(name for row in readings for name in row)
    }


def measured(device: torch.device) -> dict[str, float]:
    """Shares from 0 to 1; the GPU's is missing if there is none or its driver does not tell."""
    shares = {
        log_names.CPU_USE: psutil.cpu_percent() / 100,
        log_names.RAM_USE: host_used_share(),
    }
    if device.type == "cuda":
        # the errors of drivers (pynvml's, on a part of a GPU as by MIG) have no other base class
        with contextlib.suppress(Exception):
            shares[log_names.GPU_USE] = torch.cuda.utilization(device) / 100
    return shares


def idle_gpu(share: float, cpu_share: float = 0.0) -> Finding | None:
    """Judge the share of the time in which the GPU was busy, beside that of the processor."""
    if share >= IDLE_GPU:
        return None
    cause = (
        f"The processor was busy {cpu_share:.0%} of it: what it does for each step takes longer "
        "than the GPU's part. End other programs, lower data.workers and threads, and "
        if cpu_share > BUSY_CPU
        else ""
    )
    batch = "raise data.batch_size (0 looks for one)"
    return Finding(
        "gpu",
        f"the GPU was busy {share:.0%} of the time. "
        f"{cause}{batch if cause else batch.capitalize()}; if a warning names the loader or "
        "callbacks too, begin there.",
    )


def full_gpu(memory: GpuMemory, place: str = "") -> Finding | None:
    """Judge the memory of a GPU; the advice goes by who takes it, and where the windows are."""
    if memory.share <= FULL_GPU:
        return None
    total, others, reserved, peak = (
        f"{number / 1e9:.1f} GB"
        for number in (memory.total, memory.others, memory.peak_reserved, memory.peak_allocated)
    )
    if memory.others > OTHERS * memory.total:
        advice = f"Other programs take {others} of it: nvidia-smi names them."
    elif memory.peak_allocated < CACHED * memory.peak_reserved:
        advice = (
            f"Of {reserved} reserved, {peak} were in use at once; the rest lies in pieces between. "
            "PYTORCH_ALLOC_CONF=expandable_segments:True in the environment keeps them together."
        )
    else:
        moved = " or leave the windows to the host (data.residency=ram)"
        advice = (
            f"This training takes {peak} at once: lower data.batch_size"
            f"{moved if place == 'device' else ''}; 0 looks for one that fits."
        )
    return Finding(
        "gpu_memory",
        f"{memory.share:.0%} of the GPU's {total} were taken: one larger batch, or another "
        f"program, and the training ends for want of memory. {advice}",
    )


def full_memory(share: float, own_bytes: int, place: str = "") -> Finding:
    """Tell of memory that is used by `share`, of which this training's processes take so much."""
    advice = {
        "ram": "data.residency=stream reads the windows as they are needed.",
        "stream": "Each of data.workers reads blocks ahead: lower their number.",
    }.get(place, "")
    return Finding(
        "memory",
        f"{share:.0%} of this machine's memory was used (of the limit, in a container); above "
        "100 % programs are ended. The processes of this training take "
        f"{own_bytes / 1e9:.1f} GB, with files that they share. {advice} If other programs take "
        "most of it, end some.".replace("  ", " "),
    )


def own_bytes() -> int:
    """Memory of this process and those that it started."""
    process, sizes = psutil.Process(), []
    for each in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.Error):  # it has just ended
            sizes.append(int(each.memory_info().rss))
    return sum(sizes)


@cache
def _say_once(text: str) -> None:
    """Say what is no fault of a training, once in a process that makes many."""
    LOG.info(text)
