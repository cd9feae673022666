"""Measures what leakdet adds to a bare training loop, and a run's time to its first step."""

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

import lightning.pytorch as pl
import numpy as np
import torch
from torch import nn

from bench_networks import settings as network_settings
from benchmarks import Row, Section, in_turn, run, time_s
from leakdet.acoustics.augment import augmented
from leakdet.building.cached_stores import demo_store
from leakdet.config import (
    DataConfig,
    DemoConfig,
    NetworkConfig,
    OptimizerConfig,
    SignalConfig,
    TrainConfig,
)
from leakdet.detection.losses import loss_parts
from leakdet.detection.networks import Output, make_network
from leakdet.loading.samples import Batch
from leakdet.training.callbacks.built_in import make_callbacks
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.fit import fit
from leakdet.training.memory import keep_freed_memory
from leakdet.training.optimizer import make_optimizer
from stores import write_store

# Title, network, unit, training recordings, windows of each, epochs. The first epoch
# warms up and is left out.
RUNS = (
    ("dual_head, 21,600 segments", NetworkConfig("dual_head", time_pool=1), "segment", 80, 9, 22),
    ("default recipe, 8,000 windows", NetworkConfig(), "window", 400, 20, 24),
    ("default recipe, 40,000 windows", NetworkConfig(), "window", 500, 80, 12),
)
OVERHEAD_TITLE = "Training against a bare PyTorch loop"
OVERHEAD_NOTE = """`steps`: the training part of an epoch, with every callback and the CSV log; `epoch`:
with validation, its metrics and the checkpoints, against a bare loop that computes the validation
loss. The bare loop has the same network, data, gather, batches of 512, augmentation and loss. Epochs
of both in turn in one process; medians over all but the first of 22, 24 and 12."""
CALLBACKS_TITLE = "What the callbacks take of an epoch"
CALLBACKS_NOTE = """Percent of the same epochs that the hooks of each callback take; less than 0.01 is left
out. Checkpoints cost the same whatever an epoch's length."""
MEMORY_TITLE = "Memory of a step that stays with the process"
MEMORY_NOTE = """A forward and a backward pass and the optimiser's step, batch 512, with glibc; medians of
40 steps and of 3 processes each, in turn. Training on a CPU keeps what it frees
(leakdet.training.memory)."""
START_TITLE = "From the start of a process to the first optimiser step"
START_NOTE = (
    "`leakdet train data.store=DIR` with the default recipe and logs. Median of 3 processes."
)


class Bare:
    """The same network, data, batches, augmentation and loss in a plain loop."""

    def __init__(self, config: TrainConfig, data: LeakDataModule) -> None:
        self.config, self.data = config, data
        self.network = make_network(config.network, data.sample_shape, len(data.labels.names))
        self.network.input.fit(data.standardisation_batches())
        self.optimizer = make_optimizer(self.network, config.optimizer)
        self.weights = torch.ones(len(data.labels.names))
        self.loader = data.train_loader()

    def loss(self, output: Output, batch: Batch) -> torch.Tensor:
        leaks = self.data.labels.leaks
        return loss_parts(
            output, batch.class_id, batch.weight, self.config.loss, self.weights, leaks
        ).total

    def train(self, epoch: int) -> float:
        """Seconds of one epoch's steps."""
        started = time.perf_counter()
        self.network.train()
        self.loader.set_epoch(epoch)
        for batch in self.loader:
            self.optimizer.zero_grad()
            loss = self.loss(self.network(augmented(batch.mel.float(), self.config.augment)), batch)
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
            self.optimizer.step()
        return time.perf_counter() - started

    @torch.no_grad()
    def validate(self) -> float:
        """Seconds of the loss over the validation split."""
        started = time.perf_counter()
        self.network.eval()
        losses = [
            self.loss(self.network.infer(batch.mel), batch) for batch in self.data.val_dataloader()
        ]
        float(torch.stack(losses).mean())
        return time.perf_counter() - started


class Interleaved(pl.Callback):
    """Runs a bare epoch before each one of leakdet, so that both meet the same load."""

    def __init__(self, bare: Bare) -> None:
        self.bare = bare
        self.seconds: list[dict[str, float]] = []
        self.of_callbacks: dict[str, float] = {}

    def on_train_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        for callback in trainer.callbacks:  # type: ignore[attr-defined]
            if callback is not self:
                self._watch(callback)

    def _watch(self, callback: pl.Callback) -> None:
        """Let every hook of `callback` add its seconds to those of its class."""
        name = type(callback).__name__
        for hook in [hook for hook in dir(pl.Callback) if hook.startswith("on_")]:
            if getattr(type(callback), hook) is not getattr(pl.Callback, hook):
                setattr(callback, hook, self._timed(name, getattr(callback, hook)))

    def _timed(self, name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(plain)
        def hook(*arguments: Any, **named: Any) -> Any:
            started = time.perf_counter()
            try:
                return plain(*arguments, **named)
            finally:
                self.of_callbacks[name] = (
                    self.of_callbacks.get(name, 0.0) + time.perf_counter() - started
                )

        return hook

    def on_train_epoch_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        self._epoch_ended()
        epoch = trainer.current_epoch
        row = {"bare steps": self.bare.train(epoch), "bare validation": self.bare.validate()}
        self.seconds.append(row)
        if epoch == 1:
            self.of_callbacks.clear()
        self._started = time.perf_counter()

    def on_validation_start(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        if not trainer.sanity_checking:
            self.seconds[-1]["steps"] = time.perf_counter() - self._started

    def on_train_end(self, trainer: "pl.Trainer", pl_module: "pl.LightningModule") -> None:
        self._epoch_ended()

    def _epoch_ended(self) -> None:
        if self.seconds:
            self.seconds[-1]["epoch"] = time.perf_counter() - self._started


@cache
def watched() -> dict[str, Interleaved]:
    """The trainings of RUNS by their titles."""
    trainings = {}
    for title, network, unit, recordings, windows, epochs in RUNS:
        with tempfile.TemporaryDirectory() as folder:
            write_store(Path(folder), recordings, windows)
            write_store(Path(folder), recordings // 5, windows, "val")
            trainings[title] = compared(settings(network, unit, epochs), Path(folder))
    return trainings


def overhead() -> Iterator[Row]:
    for title, measured in watched().items():
        yield {"what": title, **ratios(measured)}


def callbacks() -> Iterator[Row]:
    for title, measured in watched().items():
        yield {"what": title, **shares_of_callbacks(measured)}


def shares_of_callbacks(measured: Interleaved) -> dict[str, float]:
    epochs = sum(row["epoch"] for row in measured.seconds[1:])
    share = {name: 100 * seconds / epochs for name, seconds in measured.of_callbacks.items()}
    ordered = sorted(share.items(), key=lambda item: -item[1])
    return {"all": sum(share.values()), **{name: of for name, of in ordered if of >= 0.01}}


def settings(network: NetworkConfig, unit: str, epochs: int) -> TrainConfig:
    trainer = {
        "max_epochs": epochs,
        "accelerator": "cpu",
        "gradient_clip_val": 1.0,
        "log_every_n_steps": 1,
    }
    return TrainConfig(
        data=DataConfig(unit=unit, batch_size=512, sampling="balanced"),
        network=network,
        trainer={**trainer, "enable_model_summary": False},
        logger={"csv": {}},
        patience=epochs,
        loss_patience=0,
    )


def compared(config: TrainConfig, store: Path) -> Interleaved:
    """One run of leakdet with the bare loop's epochs in between."""
    data = LeakDataModule(config, store)
    data.setup("fit")
    watch = Interleaved(Bare(config, data))
    with (
        tempfile.TemporaryDirectory() as run,
        # before the others, so that their hooks are measured too
        patch("leakdet.training.trainer.make_callbacks", lambda *a: [watch, *make_callbacks(*a)]),
    ):
        fit(data, Path(run))
    return watch


def ratios(measured: Interleaved) -> dict[str, float]:
    rows = measured.seconds[1:]
    steps, bare = (statistics.median(row[name] for row in rows) for name in ("steps", "bare steps"))
    epoch = statistics.median(row["epoch"] for row in rows)
    both = statistics.median(row["bare steps"] + row["bare validation"] for row in rows)
    return {
        "steps [s]": steps,
        "bare steps [s]": bare,
        "ratio of steps": round(steps / bare, 3),
        "epoch [s]": epoch,
        "bare epoch [s]": both,
        "ratio of epochs": round(epoch / both, 3),
    }


def memory() -> Iterator[Row]:
    """Compare training steps whose freed memory the C library keeps, or returns to the system."""
    for name, unit in (("paper", "window"), ("compact", "window"), ("dual_head", "segment")):
        works = {how: partial(_steps, how == "kept", name, unit) for how in ("kept", "given back")}
        times = {how: np.median(pairs, axis=0) for how, pairs in in_turn(works, 3).items()}
        (kept_ms, kept_faults), (plain_ms, plain_faults) = times["kept"], times["given back"]
        yield {
            "what": f"{name}, {unit}s",
            "kept [ms]": kept_ms,
            "given back [ms]": plain_ms,
            "times": plain_ms / kept_ms,
            "kept, page faults": round(kept_faults),
            "given back, page faults": round(plain_faults),
        }


def _steps(kept: bool, name: str, unit: str) -> Sequence[float]:
    """Milliseconds and page faults of a step, in its own process, as malloc stays set."""
    script = f"import bench_train; bench_train.print_steps({kept}, {name!r}, {unit!r})"
    return _printed(["-c", script])  # type: ignore[no-any-return]


def _printed(words: Sequence[str]) -> Any:
    """The last line that Python prints in a process of its own, which is JSON."""
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def print_steps(kept: bool, name: str, unit: str) -> None:
    """Print medians of 40 steps, after ten."""
    if kept:
        keep_freed_memory()
    windows = unit == "window"
    shape = (30 if windows else 1, 64, 1)
    network = make_network(replace(network_settings(name), time_pool=4 if windows else 1), shape, 2)
    optimizer, mel = make_optimizer(network, OptimizerConfig()), torch.randn(512, *shape)

    def step() -> None:
        optimizer.zero_grad()
        output = network(mel)
        (output.class_logits.square().mean() + output.leak_logit.square().mean()).backward()
        optimizer.step()

    def faults() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    def measured() -> tuple[float, int]:
        before = faults()
        return 1e3 * time_s(step), faults() - before

    print(json.dumps(np.median(in_turn({name: measured}, 40, warm=10)[name], axis=0).tolist()))


def start() -> Iterator[Row]:
    """Time a process from its start to the end of its first optimiser step, on a built store."""
    store = demo_store(DemoConfig(), SignalConfig())
    runs = [first_step(store) for _ in range(4)][1:]  # the first fills the page cache
    yield {"part": "all", "seconds": statistics.median(sum(parts.values()) for parts in runs)}
    for part in runs[0]:
        yield {"part": part, "seconds": statistics.median(parts[part] for parts in runs)}


def first_step(store: Path) -> dict[str, float]:
    script = Path(__file__).with_name("first_step.py")
    with tempfile.TemporaryDirectory() as folder:
        settings = [f"data.store={store.absolute()}", f"hydra.run.dir={folder}/run"]
        return _printed([str(script), str(time.time()), *settings])  # type: ignore[no-any-return]


if __name__ == "__main__":
    run(
        __doc__,
        Section("train_overhead", OVERHEAD_TITLE, overhead(), OVERHEAD_NOTE),
        Section("train_callbacks", CALLBACKS_TITLE, callbacks(), CALLBACKS_NOTE),
        Section("train_memory", MEMORY_TITLE, memory(), MEMORY_NOTE),
        Section("train_start", START_TITLE, start(), START_NOTE),
    )
