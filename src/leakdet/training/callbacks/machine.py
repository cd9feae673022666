"""Logs how busy and how full processor, memory and GPU are; warns of idle and of full ones."""

import contextlib
import statistics
import threading
from collections import deque
from functools import cache

import lightning.pytorch as pl
import psutil
import torch
from lightning.pytorch.callbacks import Callback

from leakdet.core.messages import LOG
from leakdet.loading.memory import host_used_share
from leakdet.training import log_names
from leakdet.training.callbacks.diagnostics import Finding, Findings, log_numbers, place_of_windows
from leakdet.training.memory import GpuMemory, read_gpu_memory, why_no_gpu_use

EVERY_S = 1.0
IDLE_GPU = 0.30
KEPT = 10_000  # latest readings between two checks
LEAST_READINGS = 5  # of the GPU, before it is called idle
BUSY_CPU = 0.90
FULL_GPU, FULL_RAM = 0.95, 0.90
OTHERS = 0.10  # of the GPU's memory, above which other programs are named
CACHED = 0.8  # most in tensors at once, of what was reserved: below, much of it was a cache


class SystemUse(Callback):
    """Takes readings in a thread of its own, and logs their means at each validation check.

    Lightning's DeviceStatsMonitor reads in the training thread, twice in each step that is logged,
    all counts of torch's allocator, but neither how busy a GPU is nor what other programs take.
    """

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self._readings: deque[dict[str, float]] = deque(maxlen=KEPT)
        self._unjudged: list[dict[str, float]] = []  # of a GPU
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def on_train_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        device = pl_module.device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        untold = why_no_gpu_use(device)
        if untold and trainer.is_global_zero:
            _say_once(f"gpu use  {untold}")
        self._stopping.clear()
        self._thread = threading.Thread(
            target=self._take_readings,
            args=(torch.device("cpu") if untold else device,),
            name="system use",
            daemon=True,
        )
        self._thread.start()

    def _take_readings(self, device: torch.device) -> None:
        psutil.cpu_percent()
        while not self._stopping.wait(EVERY_S):
            self._readings.append(measured(device))

    def on_validation_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if trainer.sanity_checking:
            return
        # one reading now, where the time since the last check was too short for any
        taken, self._readings = self._readings, deque(maxlen=KEPT)
        readings = list(taken) or [measured(torch.device("cpu"))]
        memory, place = read_gpu_memory(pl_module.device), place_of_windows(pl_module)
        log_numbers(trainer, _means(readings) | (memory.numbers() if memory else {}))
        fullest = max(row[log_names.RAM_USE] for row in readings)
        if fullest > FULL_RAM:
            self.findings.warn(trainer, full_memory(fullest, own_bytes(), place))
        if memory is not None:
            self.findings.warn(trainer, full_gpu(memory, place))
        self._judge_gpu_use(trainer, [row for row in readings if log_names.GPU_USE in row])

    def _judge_gpu_use(self, trainer: "pl.Trainer", readings: list[dict[str, float]]) -> None:
        """Judge once there are enough readings, which short epochs give together."""
        self._unjudged += readings
        if len(self._unjudged) >= LEAST_READINGS:
            means = _means(self._unjudged)
            self._unjudged = []
            finding = idle_gpu(means[log_names.GPU_USE], means[log_names.CPU_USE])
            self.findings.warn(trainer, finding)

    def teardown(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule", stage: str) -> None:
        self._stop()

    def on_exception(
        self, trainer: "pl.Trainer", pl_module: "pl.LightningModule", exception: BaseException
    ) -> None:
        self._stop()  # Lightning tears no callback down after an exception

    def _stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None


def _means(readings: list[dict[str, float]]) -> dict[str, float]:
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
    batch = "raise data.batch_size (find_batch_size=true looks for one)"
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
            f"{moved if place == 'device' else ''}; find_batch_size=true looks for one that fits."
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
    for one in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.Error):  # it has just ended
            sizes.append(int(one.memory_info().rss))
    return sum(sizes)


@cache
def _say_once(text: str) -> None:
    """Say what is no fault of a training, once in a process that makes many."""
    LOG.info(text)
