"""How much leakdet adds to a bare training loop, what fitting kernels give, and how long a run takes to its first step.

`python scripts/bench_train.py`; writes its sections of docs/benchmarks.md.
"""

import contextlib
import io
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from torch import nn

from benchmarks import write_section
from leakdet.config import (
    AugmentConfig,
    DataConfig,
    DemoConfig,
    LossConfig,
    NetworkConfig,
    SignalConfig,
    TrainConfig,
)
from leakdet.detection.losses import loss_parts
from leakdet.detection.networks import make_network
from leakdet.storage.demo import demo_store
from leakdet.training import fitting
from leakdet.training.datamodule import LeakDataModule, TrainLoader
from leakdet.training.optimising import adamw

EPOCHS = 4  # the first warms up and is left out
DEMO = DemoConfig(sites=20, recordings_per_site=10, duration_s=4.0)


class Clock(pl.Callback):
    """Seconds of each epoch's training part: all of its steps, the callbacks between them included."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def on_train_epoch_start(self, *_: Any) -> None:
        self._started = time.perf_counter()

    def on_validation_start(self, trainer: "pl.Trainer", *_: Any) -> None:
        if not trainer.sanity_checking:
            self.seconds.append(time.perf_counter() - self._started)


def settings(network: NetworkConfig, unit: str, batch_size: int) -> TrainConfig:
    return TrainConfig(
        data=DataConfig(unit=unit, batch_size=batch_size, sampling="balanced"),
        network=network,
        augment=AugmentConfig(eq_db=0.0),
        demo=DEMO,
        trainer={
            "max_epochs": EPOCHS,
            "accelerator": "cpu",
            "gradient_clip_val": 1.0,
            "enable_model_summary": False,
        },
        logger={"csv": {}},
        patience=EPOCHS,
    )


def under_leakdet(config: TrainConfig, data: LeakDataModule) -> float:
    """Median seconds of an epoch with every callback and logger on."""
    clock, plain = Clock(), fitting.make_callbacks
    fitting.make_callbacks = lambda *a: [clock, *plain(*a)]
    try:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            fitting.fit(config, data, Path(folder))
    finally:
        fitting.make_callbacks = plain
    return statistics.median(clock.seconds[1:])


def bare(config: TrainConfig, data: LeakDataModule) -> float:
    """The same network, data, batches and loss in a plain loop."""
    network = make_network(config.network, data.sample_shape, len(data.labels.names))
    optimizer = adamw(network, config.optimizer, torch.device("cpu"))
    weights, seconds = torch.ones(len(data.labels.names)), []
    loader = TrainLoader(data.train_epochs())
    for epoch in range(EPOCHS):
        loader.set_epoch(epoch)
        started = time.perf_counter()
        for batch in loader:
            output = network(batch.mel.float())
            loss = loss_parts(
                output, batch.class_id, batch.weight, LossConfig(), weights, data.labels.leak_index
            ).total
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[1:])


def widened(network: nn.Module) -> nn.Module:
    """3x3 kernels on one column, as the predecessor had them."""
    for name in ("conv1", "conv2", "conv3"):
        old = getattr(network, name)
        setattr(network, name, nn.Conv2d(old.in_channels, old.out_channels, 3, padding=1))
    return network


def steps_per_second(network: nn.Module, mel: torch.Tensor) -> Callable[[], float]:
    def once() -> float:
        started = time.perf_counter()
        output = network(mel)
        (output.class_logits.sum() + output.leak_logit.sum()).backward()
        return len(mel) / (time.perf_counter() - started)

    return once


def first_step(store: Path) -> float:
    """Seconds from the start of a process to the end of its first optimiser step, as a user starts it."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "leakdet.train",
            f"data.store={store}",
            f"hydra.run.dir={folder}/run",
        ]
        started = time.perf_counter()
        done = subprocess.run([*command, "trainer.max_steps=1"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr)
        return time.perf_counter() - started


def main() -> None:
    store = demo_store(DEMO, SignalConfig())
    rows = []
    for title, network, unit, batch_size in (
        ("dual_head, segments, batch 512", NetworkConfig(name="dual_head", time_pool=1), "segment", 512),
        ("default recipe (paper), windows, batch 512", NetworkConfig(), "window", 512),
        ("default recipe (paper), windows, batch 48", NetworkConfig(), "window", 48),
    ):
        config = settings(network, unit, batch_size)
        data = LeakDataModule(config, store)
        pairs = [(under_leakdet(replace(config), data), bare(config, data)) for _ in range(3)]
        ours, plain = (statistics.median(pair[index] for pair in pairs) for index in (0, 1))
        rows.append(
            {"what": title, "leakdet [s/epoch]": round(ours, 3), "bare loop [s/epoch]": round(plain, 3)}
        )
        rows[-1]["ratio"] = round(ours / plain, 3)
        print(rows[-1], flush=True)
    note = f"Training part of an epoch, callbacks, metrics and CSV log on. Median of epochs 2 to {EPOCHS}, then of 3 runs."
    write_section("train_overhead", "Training against a bare PyTorch loop", rows, note)

    mel = torch.randn(512, 1, 64, 1)
    narrow_config = NetworkConfig(name="dual_head", time_pool=1)
    narrow = steps_per_second(make_network(narrow_config, (1, 64, 1), 2), mel)
    wide = steps_per_second(widened(make_network(narrow_config, (1, 64, 1), 2)), mel)
    found = [(narrow(), wide()) for _ in range(8)][2:]
    fitted, three = (statistics.median(pair[index] for pair in found) for index in (0, 1))
    kernels = {"fitting kernels [samples/s]": round(fitted), "3x3 kernels [samples/s]": round(three)}
    write_section(
        "train_kernels", "Kernels that fit one frame", [{**kernels, "ratio": round(fitted / three, 2)}]
    )
    print(kernels, flush=True)

    start = statistics.median(first_step(store) for _ in range(3))
    row = {"process start to the end of a run of one step [s]": round(start, 1)}
    write_section(
        "train_start",
        "From nothing to the first step",
        [row],
        "On a built store; evaluation and figures included.",
    )
    print(row, flush=True)


if __name__ == "__main__":
    main()
