"""Measures training on a GPU with each residency: the section `gpu` of docs/benchmarks.md.

`python scripts/bench_gpu.py` on a machine with a CUDA device; `--cpu` tries the script anywhere, on
less data, and writes nothing.
"""

import argparse
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch

from benchmarks import write_section
from leakdet.config import DataConfig, TrainConfig
from leakdet.training.callbacks.system_use import measured
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.fit import fit
from leakdet.training.log_names import GPU_USE
from stores import write_store

EPOCHS = 5  # the first compiles and is left out
EVERY_S = 0.05
NOTE = """Training of the default network with the settings of `trainer=gpu`: optimiser, augmentation
and every callback. Medians over the epochs but the first. `waiting`: share of an epoch's training
part between the end of a step and the start of the next, in which the batch is fetched; `GPU use`:
what the driver reports (needs nvidia-ml-py), 20 times a second."""


class Meter(pl.Callback):
    """Measures each epoch's training part: seconds, share of waiting, use of the GPU."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.waiting: list[float] = []
        self.gpu_use: list[float] = []
        self._over = threading.Event()

    def on_train_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        self._device = pl_module.device
        threading.Thread(target=self._watch, daemon=True).start()

    def on_train_epoch_start(self, *_: Any) -> None:
        self._began = self._ended = self._now()
        self._waited = 0.0

    def on_train_batch_start(self, *_: Any) -> None:
        self._waited += time.perf_counter() - self._ended

    def on_train_batch_end(self, *_: Any) -> None:
        self._ended = time.perf_counter()

    def on_validation_start(self, trainer: "pl.Trainer", *_: Any) -> None:
        if not trainer.sanity_checking:
            self.seconds.append(self._now() - self._began)
            self.waiting.append(self._waited / self.seconds[-1])

    def on_fit_end(self, *_: Any) -> None:
        self._over.set()

    def _now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return time.perf_counter()

    def _watch(self) -> None:
        while not self._over.wait(EVERY_S):
            use = measured(self._device).get(GPU_USE)
            if use is not None and self.seconds:
                self.gpu_use.append(use)


def settings(store: Path, unit: str, residency: str, cpu: bool) -> TrainConfig:
    """The settings of conf/trainer/gpu.yaml; on a CPU smaller ones."""
    kind: dict[str, Any] = (
        {"accelerator": "cpu"}
        if cpu
        else {"accelerator": "gpu", "precision": "bf16-mixed", "benchmark": True}
    )
    return TrainConfig(
        data=DataConfig(
            store=str(store), unit=unit, residency=residency, batch_size=64 if cpu else 8192
        ),
        trainer={
            "max_epochs": EPOCHS,
            "devices": 1,
            "log_every_n_steps": 50,
            "enable_model_summary": False,
            "enable_progress_bar": False,
            "gradient_clip_val": 1.0,
            **kind,
        },
        compile=not cpu,
        patience=EPOCHS,
    )


def row_of(store: Path, unit: str, residency: str, cpu: bool) -> dict[str, Any]:
    config = settings(store, unit, residency, cpu)
    data, meter = LeakDataModule(config, store), Meter()
    with tempfile.TemporaryDirectory() as folder:
        fit(config, data, Path(folder), [meter])
    row: dict[str, Any] = {
        "samples": unit,
        "batch": config.data.batch_size,
        "residency": residency,
        "samples/s": len(data.train_samples) / statistics.median(meter.seconds[1:]),
        "waiting": statistics.median(meter.waiting[1:]),
    }
    return row | ({"GPU use": statistics.mean(meter.gpu_use)} if meter.gpu_use else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--cpu", action="store_true", help="try it without a GPU, small; writes nothing"
    )
    arguments = parser.parse_args()
    if not arguments.cpu and not torch.cuda.is_available():
        print(
            "bench_gpu measures a CUDA device, and torch finds none: nothing was measured. --cpu "
            "tries the script."
        )
        return
    recordings, windows = (12, 2) if arguments.cpu else (2000, 80)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        store = Path(name)
        write_store(store, recordings, windows)
        write_store(store, max(10, recordings // 20), windows, "val")
        for unit in ("segment", "window"):
            for residency in ("device", "ram", "stream"):
                rows.append(row_of(store, unit, residency, arguments.cpu))
                print(rows[-1], flush=True)
    if not arguments.cpu:
        device = torch.cuda.get_device_name(0)
        title = f"Training on {device}: {recordings:,} recordings of {windows} windows"
        write_section("gpu", title, rows, " ".join(NOTE.split("\n")))


if __name__ == "__main__":
    main()
