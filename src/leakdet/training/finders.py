"""Finds a learning rate or a batch size before a run, by steps on a copy of its network."""

import copy
import math
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch

from leakdet.acoustics.augment import augmented
from leakdet.config import TrainerFlags
from leakdet.core.errors import LeakdetError, SettingsError, memory_sentence
from leakdet.core.messages import LOG
from leakdet.loading.loaders import WINDOWS
from leakdet.loading.memory import host_used_share
from leakdet.loading.samples import Batch
from leakdet.tables.write import write_csv
from leakdet.training.compilation import Precision
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.memory import read_gpu_memory
from leakdet.training.module import LeakModule
from leakdet.training.optimizer import make_optimizer
from leakdet.training.run_summary import steps_line


class TrialStep:
    """Trains a copy of the module's network on `device`, with its loss, optimiser and clipping."""

    def __init__(
        self, module: LeakModule, device: torch.device, precision: Precision = nullcontext
    ) -> None:
        self.config, self.device, self.precision = module.config, device, precision
        self.network = copy.deepcopy(module.network).to(device).train()
        self.loss, self.weights = module.loss, module.weights.to(device)
        self.optimizer = make_optimizer(self.network, self.config.optimizer)
        self.clip = TrainerFlags.of(self.config.trainer).gradient_clip_val or math.inf

    def on_device(self, batch: Batch) -> Batch:
        return Batch(*(part.to(self.device) for part in batch))

    def train(self, batch: Batch, rate: float) -> torch.Tensor:
        """Take one step at a learning rate; the loss before it. `batch` is on the device."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        with self.precision():
            output = self.network(augmented(batch.mel.float(), self.config.augment))
            loss = self.loss(output, batch, self.weights).total
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.clip)
        self.optimizer.step()
        return loss.detach()

    def validate(self, batch: Batch) -> None:
        """Run the network as a validation check does."""
        self.network.eval()
        with torch.no_grad(), self.precision():
            self.network.infer(batch.mel)
        self.network.train()


BATCH_SIZES = tuple(2**power for power in range(5, 16))
EPOCH_STEPS = 4  # at least so many in an epoch of the largest batch
TIMED_STEPS, TIMED_S = 3, 0.3  # whichever is longer
FASTER = 1.1  # a larger batch must give so many times the samples per second
FULLEST = 0.9  # share of the memory; the rest is for fragments, other programs and later epochs


def find_batch_size(
    module: LeakModule,
    data: LeakDataModule,
    folder: Path,
    device: torch.device,
    precision: Precision = nullcontext,
) -> int:
    """Double the batch size while that pays off.

    Each doubling must give 10 % more samples per second, leave 10 % of the memory and EPOCH_STEPS
    in an epoch (stop.batches under stop.name=fixed). Writes batch_size_finder.csv into `folder`:
    size, samples per second, whether chosen.
    """
    stop = module.config.stop
    least_steps = stop.batches if stop.name == "fixed" else EPOCH_STEPS
    most = max(1, len(data.train_samples) // least_steps)
    sizes = [size for size in BATCH_SIZES if size <= most] or [most]
    rows = growing(timed_speed(module, data, device, precision), sizes)
    chosen = rows[-1][0] if len(rows) == 1 or rows[-1][1] >= FASTER * rows[-2][1] else rows[-2][0]
    path = folder / "batch_size_finder.csv"
    columns = ("batch_size", "samples_per_s", "chosen")
    lines = [(size, round(speed, 1), int(size == chosen)) for size, speed in rows]
    write_csv(path, (dict(zip(columns, line, strict=True)) for line in lines), columns)
    LOG.info(f"find_bs  data.batch_size={chosen} ({path})")
    return chosen


def growing(speed_of: Callable[[int], float | None], sizes: list[int]) -> list[tuple[int, float]]:
    """(size, samples per second) up to the first size that is not FASTER or does not fit (None)."""
    rows: list[tuple[int, float]] = []
    for size in sizes:
        speed = speed_of(size)
        if speed is None:
            break
        rows.append((size, speed))
        if len(rows) > 1 and speed < FASTER * rows[-2][1]:
            break
    if not rows:
        raise LeakdetError(
            f"data.batch_size=0: not even {sizes[0]} samples fit into memory; take a smaller "
            "network."
        )
    return rows


def timed_speed(
    module: LeakModule,
    data: LeakDataModule,
    device: torch.device,
    precision: Precision = nullcontext,
) -> Callable[[int], float | None]:
    """Samples per second of training steps by batch size; None where memory does not suffice.

    What a training has in memory at its fullest is there: gradients, the optimiser's state, a batch
    of validation, and on a GPU the windows of the store if they will be kept there.
    """

    def speed(size: int) -> float | None:
        try:
            windows = _place_of_windows(data, device)
            rate = _speed(TrialStep(module, device, precision), data, size)
            del windows
            return rate
        except (RuntimeError, MemoryError) as error:
            if memory_sentence(error) is None:
                raise
            return None

    return speed


def _speed(step: TrialStep, data: LeakDataModule, size: int) -> float | None:
    device, rate = step.device, step.config.optimizer.lr
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    batch = step.on_device(data.train_samples.batch(0, size))
    steps, began = -1, 0.0  # the first one warms up
    while steps < TIMED_STEPS or _now(device) - began < TIMED_S:
        if steps == 0:
            began = _now(device)
        step.train(batch, rate)
        steps += 1
    seconds = _now(device) - began
    val = data.val_samples
    step.validate(step.on_device(val.batch(0, min(len(val), WINDOWS * val.per_window))))
    # the smallest is never too large: others may fill the memory
    full = size > BATCH_SIZES[0] and used_share(device) > FULLEST
    return None if full else steps * size / seconds


def _place_of_windows(data: LeakDataModule, device: torch.device) -> torch.Tensor | None:
    """As much of the GPU's memory as the windows will take there."""
    if data.residency.kind != "device":
        return None
    return torch.empty(data.mel_bytes, dtype=torch.uint8, device=device)


def used_share(device: torch.device) -> float:
    """Share of the device's memory that was taken when it was fullest; of the host's, now."""
    gpu = read_gpu_memory(device)
    return gpu.share if gpu else host_used_share()


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


LOW, HIGH, STEPS = 1e-6, 1.0, 100
# losses in the centred moving mean: an odd number, or the choice would lag behind
WINDOW = 9
STRIDE = 5
BLOWN_UP = 4.0  # times the lowest mean of the latest losses, at which the test ends


def find_rate(
    module: LeakModule,
    data: LeakDataModule,
    folder: Path,
    device: torch.device,
    precision: Precision = nullcontext,
) -> float:
    """Range test (Smith 2017): the rate rises from LOW to HIGH in equal factors.

    Returns the rate at which the loss falls fastest. Writes lr_finder.csv into `folder`: rate,
    loss, smoothed loss, whether chosen.

    Lightning's Tuner.lr_find smooths with a lag and takes the fall per rate, not per factor: its
    rates gave a higher loss on val (docs/performance.md).
    """
    path = folder / "lr_finder.csv"
    rates, losses = range_test(_stepper(module, data, device, precision))
    smooth = smoothed(losses)
    chosen = steepest(smooth)
    columns = ("lr", "loss", "smoothed", "chosen")
    marks = [int(index == chosen) for index in range(len(rates))]
    lines = zip(rates, losses, smooth, marks, strict=True)
    write_csv(path, (dict(zip(columns, line, strict=True)) for line in lines), columns)
    if chosen is None:
        raise LeakdetError(
            f"find_lr: the loss never fell between {LOW:g} and {HIGH:g} ({path}); set optimizer.lr "
            "by hand."
        )
    LOG.info(f"find_lr  optimizer.lr={rates[chosen]:.2e} ({path})")
    return rates[chosen]


def range_test(
    step: Callable[[float], float], steps: int = STEPS
) -> tuple[list[float], list[float]]:
    """Rising rates and the loss before the step at each, until the loss blows up.

    `step` trains once at a rate and returns its loss.
    """
    rates: list[float] = []
    losses: list[float] = []
    lowest = math.inf
    for number in range(steps):
        rate = LOW * (HIGH / LOW) ** (number / max(1, steps - 1))
        loss = step(rate)
        latest = statistics.fmean([*losses[-WINDOW // 2 :], loss])
        if not math.isfinite(loss) or latest > BLOWN_UP * lowest:
            break
        lowest = min(lowest, latest)
        rates.append(rate)
        losses.append(loss)
    return rates, losses


def smoothed(losses: Sequence[float]) -> list[float]:
    """Centred moving mean; near the ends it takes fewer neighbours, as many on either side."""
    last = len(losses) - 1
    reach = [min(index, last - index, WINDOW // 2) for index in range(len(losses))]
    return [statistics.fmean(losses[i - r : i + r + 1]) for i, r in enumerate(reach)]


def steepest(smooth: Sequence[float]) -> int | None:
    """The middle of the STRIDE steps over which the smoothed loss falls most, if it ever falls.

    The ends, which are hardly smoothed, are left out: their noise would be the steepest fall.
    """
    edge = WINDOW // 2 + 1
    falls = [
        (smooth[index + STRIDE] - smooth[index], index + STRIDE // 2)
        for index in range(edge, len(smooth) - edge - STRIDE)
    ]
    fall, index = min(falls, default=(0.0, 0))
    return index if fall < 0 else None


def _stepper(
    module: LeakModule, data: LeakDataModule, device: torch.device, precision: Precision
) -> Callable[[float], float]:
    """A step that trains a copy of the module's network, on `device`, by one batch at a rate."""
    trial, loader = TrialStep(module, device, precision), data.train_dataloader()
    batches = iter(loader)

    def step(rate: float) -> float:
        nonlocal batches
        batch = next(batches, None)
        if batch is None:
            loader.set_epoch(loader.epoch + 1)
            batches = iter(loader)
            batch = next(batches)
        return float(trial.train(trial.on_device(batch), rate))

    return step


def with_found_settings(module: LeakModule, folder: Path, trainer: "pl.Trainer") -> LeakDataModule:
    """The module's data under what the finders chose on the device that training will use."""
    data, config = module.data, module.config
    sought = {"find_lr=true": "optimizer.lr"} if config.find_lr else {}
    sought |= {} if config.data.batch_size else {"data.batch_size=0": "data.batch_size"}
    if trainer.world_size > 1:
        raise SettingsError(
            f"{' and '.join(sought)}: works with one process only, and this run has "
            f"{trainer.world_size}. Find it with one first (trainer.devices=1 "
            f"trainer.num_nodes=1), then give {' and '.join(sought.values())} here."
        )
    device, plugin = trainer.strategy.root_device, trainer.precision_plugin
    where: Any = {"device": device, "precision": plugin.forward_context}
    if not config.data.batch_size:
        size = find_batch_size(module, data, folder, **where)
        config = replace(config, data=replace(config.data, batch_size=size))
        data = data.with_settings(config)
        LOG.info(f"steps    {steps_line(config, data)}")
    if config.find_lr:
        rate = find_rate(module, data, folder, **where)
        data = data.with_settings(replace(config, optimizer=replace(config.optimizer, lr=rate)))
    return data
