"""Measures training and predict on a GPU within five minutes: the sections `gpu…` of the page.

Needs a CUDA device. `--device cpu --small` goes through the same lines anywhere, on little data, and
only prints.
"""

import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch

import leakdet
from benchmarks import Row, Section, measure, parser, time_s
from leakdet.config import TrainConfig
from leakdet.training.callbacks.machine import measured
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.fit import fit, result_checkpoint
from leakdet.training.log_names import GPU_USE
from stores import write_sounds, write_store

EPOCHS = 6  # the first warms up and is left out
EVERY_S = 0.05
LIMIT_S = 210.0  # no training begins later: one may compile for a minute
RATE_HZ = 16000
NOTE = """Training with the settings of `trainer=gpu` on segments: optimiser, augmentation and every
callback. Medians over the epochs but the first. `found`: the batch size that data.batch_size=0 found.
`waiting`: share of an epoch's training part between the end of a step and the start of the next, in
which the batch is fetched; `worst ms`: the longest such wait; `peak GB`: most in tensors at once;
`GPU use`: what the driver reports (needs nvidia-ml-py), 20 times a second. TF32:
trainer.precision=32-true, whose products are of TF32."""
PREDICT_NOTE = """Seconds of sound for a second of time, files of 16 kHz in the page cache, best of two:
decoding, log-mel and the network, with the detector of a training above."""


@dataclass(frozen=True)
class Case:
    """A training to measure."""

    network: str
    residency: str = "device"
    found: bool = False  # with the batch size that is looked for, in place of 8,192
    precision: str = "bf16-mixed"
    compiled: bool = True


PRECISIONS = {"bf16-mixed": "bf16", "32-true": "TF32"}
NETWORKS = ("dual_head", "paper")  # paper is the default
# what matters most comes first: the limit of time may leave out the last
CASES = (
    *(Case(network) for network in NETWORKS),
    *(Case(network, found=True) for network in NETWORKS),
    *(Case(network, place) for network in NETWORKS for place in ("ram", "stream")),
    *(Case(network, compiled=False) for network in NETWORKS),
    *(Case(network, precision="32-true") for network in NETWORKS),
    *(Case(network, precision="32-true", compiled=False) for network in NETWORKS),
)


class Meter(pl.Callback):
    """Measures each epoch's training part: seconds, waits, use of the GPU."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.waiting: list[float] = []
        self.worst: list[float] = []
        self.gpu_use: list[float] = []
        self._over = threading.Event()

    def on_train_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        self._device = pl_module.device
        threading.Thread(target=self._watch, daemon=True).start()

    def on_train_epoch_start(self, *_: Any) -> None:
        self._began = self._ended = self._now()
        self._waits: list[float] = []

    def on_train_batch_start(self, *_: Any) -> None:
        self._waits.append(time.perf_counter() - self._ended)

    def on_train_batch_end(self, *_: Any) -> None:
        self._ended = time.perf_counter()

    def on_validation_start(self, trainer: "pl.Trainer", *_: Any) -> None:
        if not trainer.sanity_checking:
            self.seconds.append(self._now() - self._began)
            self.waiting.append(sum(self._waits) / self.seconds[-1])
            self.worst.append(max(self._waits))

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


def settings(case: Case, store: Path, small: bool, device: str) -> TrainConfig:
    """The settings of `trainer=gpu`; for a small trial few samples, nothing compiled."""
    config: TrainConfig = leakdet.compose(
        "train",
        [
            f"trainer={'gpu' if device == 'cuda' else 'cpu'}",
            f"data.store={store}",
            "data.unit=segment",
            f"data.residency={case.residency}",
            f"data.batch_size={0 if case.found else 64 if small else 8192}",
            f"network={case.network}",
            f"trainer.precision={case.precision if device == 'cuda' else '32-true'}",
            f"compile={str(case.compiled and not small).lower()}",
            f"trainer.max_epochs={2 if small else EPOCHS}",
            f"patience={EPOCHS}",
            "trainer.enable_progress_bar=false",
            "logger=none",
        ],
    )
    return config


def row_of(case: Case, store: Path, folder: Path, small: bool, device: str) -> Row:
    config = settings(case, store, small, device)
    data, meter = LeakDataModule(config, store), Meter()
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    trainer = fit(data, folder, [meter])
    result_checkpoint(trainer).rename(folder / "model.ckpt")
    row: Row = {
        "network": case.network,
        "residency": case.residency,
        "batch": data.config.data.batch_size,
        "found": "yes" if case.found else "",
        "precision": PRECISIONS[config.trainer["precision"]] if device == "cuda" else "float32",
        "compiled": "yes" if config.compile else "",
        "samples/s": len(data.train_samples) / statistics.median(meter.seconds[1:]),
        "waiting": statistics.median(meter.waiting[1:]),
        "worst ms": 1e3 * max(meter.worst[1:]),
    }
    if device == "cuda":
        row["peak GB"] = torch.cuda.max_memory_allocated() / 1e9
    return row | ({"GPU use": statistics.mean(meter.gpu_use)} if meter.gpu_use else {})


def train_rows(store: Path, root: Path, small: bool, device: str) -> Iterator[Row]:
    began = time.monotonic()
    for number, case in enumerate(CASES):
        if time.monotonic() - began > LIMIT_S:
            print(
                f"{len(CASES) - number} of {len(CASES)} cases were left out: five minutes are over"
            )
            return
        yield row_of(case, store, root / str(number), small, device)


def predict_rows(root: Path, small: bool, device: str) -> Iterator[Row]:
    """How many times as fast as real time recordings are scored, by the trained networks."""
    files, seconds = (2, 10) if small else (64, 60)
    paths = write_sounds(root / "sounds", [seconds] * files, RATE_HZ)
    for number, network in enumerate(NETWORKS):
        detector = leakdet.load_detector(root / str(number) / "model.ckpt", device)
        fastest_s = min(time_s(partial(detector.predict, paths)) for _ in range(2))
        row = {"network": network, "files": files, "seconds each": seconds}
        yield row | {"x real time": files * seconds / fastest_s}


def main() -> None:
    command = parser(__doc__)
    command.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    command.add_argument("--small", action="store_true", help="little data, and nothing is written")
    given = command.parse_args()
    small, device = given.small, given.device
    if device == "cpu" and not small:
        command.error("--device cpu is a trial of this script, and needs --small")
    if device == "cuda" and not torch.cuda.is_available():
        print(
            "No CUDA device was found: nothing was measured. --device cpu --small tries the script."
        )
        return  # so that `make bench` goes on
    recordings, windows = (24, 2) if small else (2000, 80)
    gpu = torch.cuda.get_device_name(0) if device == "cuda" else "a CPU, a trial"
    title = f"Training on {gpu}: {recordings:,} recordings of {windows} windows"
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        store = root / "store"
        store.mkdir()
        write_store(store, recordings, windows)
        write_store(store, max(20, recordings // 20), windows, "val")
        trainings = train_rows(store, root, small, device)
        scored = predict_rows(root, small, device)
        measure(Section("gpu", title, trainings, " ".join(NOTE.split())), given.dry_run or small)
        note = " ".join(PREDICT_NOTE.split())
        measure(Section("gpu_predict", f"predict on {gpu}", scored, note), given.dry_run or small)


if __name__ == "__main__":
    main()
