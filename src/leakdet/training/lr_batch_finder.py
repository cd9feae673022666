"""Finds a learning rate and a batch size before a run, on copies of its network."""

import copy
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import lightning.pytorch as pl
import torch

from leakdet._messages import LOG
from leakdet.acoustics.augment import augmented
from leakdet.config import TrainConfig, TrainerFlags
from leakdet.errors import LeakdetError, SettingsError
from leakdet.loading.samples import Batch
from leakdet.storage.csv_file import write_csv
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.module import LeakModule
from leakdet.training.optimizer import make_optimizer

LOW, HIGH, STEPS = 1e-6, 1.0, 100
# losses in the centred moving mean: an odd number, or the choice would lag behind
WINDOW = 9
STRIDE = 5
BLOWN_UP = 4.0  # times the lowest mean of the latest losses, at which the test ends
BATCH_SIZES = tuple(2**power for power in range(5, 16))
EPOCH_STEPS = 4  # at least so many in an epoch of the largest batch
TIMED_STEPS, TIMED_S = 3, 0.3  # whichever is longer
FASTER = 1.1  # a larger batch must give so many times the samples per second


def find_rate(
    module: LeakModule, data: LeakDataModule, folder: Path, device: torch.device
) -> float:
    """Range test (Smith 2017): the rate rises from LOW to HIGH in equal factors.

    Returns the rate at which the loss falls fastest. Writes lr_finder.csv into `folder`: rate,
    loss, smoothed loss, whether chosen.

    Raises:
        LeakdetError: the loss never fell.
    """
    path = folder / "lr_finder.csv"
    rates, losses = range_test(_stepper(module, data, device))
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
    module: LeakModule, data: LeakDataModule, device: torch.device
) -> Callable[[float], float]:
    """A step that trains a copy of the module's network, on `device`, by one batch at a rate."""
    config = module.config
    network, weights = copy.deepcopy(module.network).to(device), module.weights.to(device)
    optimizer = make_optimizer(network, config.optimizer)
    loader = data.train_dataloader()
    batches = iter(loader)

    def step(rate: float) -> float:
        nonlocal batches
        batch = next(batches, None)
        if batch is None:
            loader.set_epoch(loader.epoch + 1)
            batches = iter(loader)
            batch = next(batches)
        batch = Batch(*(part.to(device) for part in batch))
        for group in optimizer.param_groups:
            group["lr"] = rate
        output = network(augmented(batch.mel.float(), config.augment))
        loss = module.loss(output, batch, weights).total
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(
            network.parameters(), TrainerFlags.of(config.trainer).gradient_clip_val or math.inf
        )
        optimizer.step()
        return float(loss.detach())

    network.train()
    return step


def find_batch_size(
    module: LeakModule, data: LeakDataModule, folder: Path, device: torch.device
) -> int:
    """Double the batch size while that pays off.

    Each doubling must give 10 % more samples per second, fit into memory and leave EPOCH_STEPS in
    an epoch. Writes batch_size_finder.csv into `folder`: size, samples per second, whether chosen.
    """
    most = max(1, len(data.train_samples) // EPOCH_STEPS)
    sizes = [size for size in BATCH_SIZES if size <= most] or [most]
    rows = growing(timed_speed(module, data, device), sizes)
    chosen = rows[-1][0] if len(rows) == 1 or rows[-1][1] >= FASTER * rows[-2][1] else rows[-2][0]
    path = folder / "batch_size_finder.csv"
    columns = ("batch_size", "samples_per_s", "chosen")
    lines = [(size, round(speed, 1), int(size == chosen)) for size, speed in rows]
    write_csv(path, (dict(zip(columns, line, strict=True)) for line in lines), columns)
    LOG.info(f"find_bs  data.batch_size={chosen} ({path})")
    return chosen


def growing(speed_of: Callable[[int], float | None], sizes: list[int]) -> list[tuple[int, float]]:
    """(size, samples per second) up to the first size that is not FASTER or does not fit (None).

    Raises:
        LeakdetError: not even the smallest fits.
    """
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
            f"find_batch_size: not even {sizes[0]} samples fit into memory; take a smaller network."
        )
    return rows


def timed_speed(
    module: LeakModule, data: LeakDataModule, device: torch.device
) -> Callable[[int], float | None]:
    """Samples per second of training steps by batch size; None where memory does not suffice."""

    def speed(size: int) -> float | None:
        steps = -1  # the first one warms up
        began = 0.0
        try:
            network = copy.deepcopy(module.network).to(device).train()
            mel = data.train_samples.read(0, size).to(device).float()
            while steps < TIMED_STEPS or _now(device) - began < TIMED_S:
                if steps == 0:
                    began = _now(device)
                output = network(mel)
                (output.class_logits.sum() + output.leak_logit.sum()).backward()
                steps += 1
        except (torch.OutOfMemoryError, MemoryError):
            return None
        return steps * size / (_now(device) - began)

    return speed


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def found_settings(
    config: TrainConfig,
    module: LeakModule,
    data: LeakDataModule,
    folder: Path,
    trainer: "pl.Trainer",
) -> TrainConfig:
    """The settings with what the finders chose on the device that training will use.

    Raises:
        SettingsError: several processes train; each would choose for itself, and they must agree.
    """
    if trainer.world_size > 1:
        sought = {"find_lr": "optimizer.lr", "find_batch_size": "data.batch_size"}
        on = [name for name in sought if getattr(config, name)]
        raise SettingsError(
            f"{' and '.join(f'{name}=true' for name in on)}: works with one process only, and this "
            f"run has {trainer.world_size}. Find it with one first (trainer.devices=1 "
            f"trainer.num_nodes=1), then give {' and '.join(sought[name] for name in on)} here."
        )
    device = trainer.strategy.root_device
    if config.find_batch_size:
        size = find_batch_size(module, data, folder, device)
        config = replace(config, data=replace(config.data, batch_size=size))
        data.set_batch_size(size)
    if config.find_lr:
        config = replace(
            config, optimizer=replace(config.optimizer, lr=find_rate(module, data, folder, device))
        )
    return config
