"""Logs how busy processor, memory and GPU are, and warns of an idle GPU."""

import contextlib
import statistics
import threading

import lightning.pytorch as pl
import psutil
import torch
from lightning.pytorch.callbacks import Callback

from leakdet.training import log_names
from leakdet.training.callbacks.findings import Finding, Findings, log_numbers

EVERY_S = 1.0
IDLE_GPU = 0.30
LEAST_READINGS = 5  # of the GPU, before it is called idle


class SystemUse(Callback):
    """Takes readings in a thread of its own, and logs their means at the end of each epoch."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self._readings: list[dict[str, float]] = []
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def on_train_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        self._stopping.clear()
        arguments = (pl_module.device,)
        self._thread = threading.Thread(
            target=self._take_readings, args=arguments, name="system use", daemon=True
        )
        self._thread.start()

    def _take_readings(self, device: torch.device) -> None:
        psutil.cpu_percent()
        while not self._stopping.wait(EVERY_S):
            self._readings.append(measured(device))

    def on_train_epoch_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        readings, self._readings = self._readings, []
        means = {
            name: statistics.fmean(row[name] for row in readings if name in row)
            for name in dict.fromkeys(name for row in readings for name in row)
        }
        if means:
            log_numbers(trainer, means)
        if sum(log_names.GPU_USE in row for row in readings) >= LEAST_READINGS:
            self.findings.warn(trainer, idle_gpu(means[log_names.GPU_USE]))

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


def measured(device: torch.device) -> dict[str, float]:
    """Shares from 0 to 1; the GPU's is missing if there is none or its driver does not tell."""
    shares = {
        log_names.CPU_USE: psutil.cpu_percent() / 100,
        log_names.RAM_USE: psutil.virtual_memory().percent / 100,
    }
    if device.type == "cuda":
        # The errors of drivers (pynvml's, on a part of a GPU as by MIG) have no other base class.
        with contextlib.suppress(Exception):
            shares[log_names.GPU_USE] = torch.cuda.utilization(device) / 100
    return shares


def idle_gpu(share: float) -> Finding | None:
    """Judge the share of an epoch in which the GPU was busy."""
    if share >= IDLE_GPU:
        return None
    return Finding(
        "gpu",
        f"the GPU was busy {share:.0%} of the epoch. Raise data.batch_size (find_batch_size=true "
        "looks for one); if a warning names the loader too, begin there.",
    )
