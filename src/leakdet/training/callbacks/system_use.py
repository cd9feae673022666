"""How busy the machine is: processor, memory and GPU, sampled by a thread of its own."""

import contextlib
import statistics
import threading

import lightning.pytorch as pl
import psutil
import torch
from lightning.pytorch.callbacks import Callback

from leakdet.training import log_names
from leakdet.training.callbacks.findings import Findings
from leakdet.training.callbacks.log_numbers import log_numbers
from leakdet.training.diagnostics import Finding

EVERY_S = 1.0
IDLE_GPU = 0.30
LEAST_SAMPLES = 5  # of the GPU, before it is called idle


class SystemUse(Callback):
    """Means of each epoch, logged; says when a GPU is mostly idle."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self._taken: list[dict[str, float]] = []
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def on_train_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        self._end.clear()
        device = pl_module.device
        self._thread = threading.Thread(
            target=self._sample, args=(device,), name="system use", daemon=True
        )
        self._thread.start()

    def _sample(self, device: torch.device) -> None:
        psutil.cpu_percent()
        while not self._end.wait(EVERY_S):
            self._taken.append(measured(device))

    def on_train_epoch_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        taken, self._taken = self._taken, []
        if not taken:
            return
        means = {
            name: statistics.fmean(row[name] for row in taken if name in row)
            for name in dict.fromkeys(name for row in taken for name in row)
        }
        log_numbers(trainer, means)
        if sum(log_names.GPU_USE in row for row in taken) >= LEAST_SAMPLES:
            self.findings.say(trainer, idle_gpu(means[log_names.GPU_USE]))

    def teardown(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule", stage: str) -> None:
        self._stop()

    def on_exception(
        self, trainer: "pl.Trainer", pl_module: "pl.LightningModule", exception: BaseException
    ) -> None:
        self._stop()  # Lightning tears no callback down after an exception

    def _stop(self) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None


def measured(device: torch.device) -> dict[str, float]:
    """Shares from 0 to 1. The GPU's is missing where there is none or where its driver does not tell."""
    found = {
        log_names.CPU_USE: psutil.cpu_percent() / 100,
        log_names.RAM_USE: psutil.virtual_memory().percent / 100,
    }
    if device.type == "cuda":
        # The driver's own errors (pynvml's, on a part of a GPU as by MIG) have no base class but this one.
        with contextlib.suppress(Exception):
            found[log_names.GPU_USE] = torch.cuda.utilization(device) / 100
    return found


def idle_gpu(share: float) -> list[Finding]:
    if share >= IDLE_GPU:
        return []
    return [
        (
            "gpu",
            f"the GPU was busy {share:.0%} of the epoch. Raise data.batch_size (find_batch_size=true looks for one); if the "
            "loader is named in a warning too, begin there.",
        )
    ]
