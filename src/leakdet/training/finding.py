"""Looking for a learning rate and a batch size before a run, on copies that the run does not see."""

import copy
import csv
import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from leakdet.acoustics.augment import augmented
from leakdet.config import TrainConfig
from leakdet.detection.losses import loss_parts
from leakdet.errors import LeakdetError
from leakdet.training.checkpoint_io import write_whole
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.module import LeakModule
from leakdet.training.optimising import adamw

LOW, HIGH, STEPS = 1e-6, 1.0, 100
SMOOTHING = 0.9
BLOWN_UP = 4.0  # times the lowest smoothed loss: the test ends there
BATCH_SIZES = tuple(2**power for power in range(5, 16))
TIMED_STEPS = 3
FASTER = 1.1  # a larger batch must give so many times the samples per second


def find_rate(module: LeakModule, data: LeakDataModule, folder: Path) -> float:
    """Range test (Smith 2017): the rate rises from LOW to HIGH in equal factors; chosen is where the loss falls fastest.

    Writes lr_finder.csv (rate, loss, smoothed loss) into `folder`.

    Raises:
        LeakdetError: the loss never fell.
    """
    rows = range_test(_stepper(copy.deepcopy(module.network), module, data))
    with (folder / "lr_finder.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("lr", "loss", "smoothed"), *rows])
    rate = steepest(rows)
    if rate is None:
        raise LeakdetError(
            f"find_lr: the loss never fell between {LOW:g} and {HIGH:g} ({folder / 'lr_finder.csv'}); set optimizer.lr by hand."
        )
    print(f"find_lr  optimizer.lr={rate:.2e} ({folder / 'lr_finder.csv'})", flush=True)
    return rate


def range_test(step: Callable[[float], float], steps: int = STEPS) -> list[tuple[float, float, float]]:
    """(rate, loss, smoothed loss) of rising rates; `step` trains once and gives the loss before its step."""
    rows: list[tuple[float, float, float]] = []
    mean = 0.0
    for number in range(steps):
        rate = LOW * (HIGH / LOW) ** (number / max(1, steps - 1))
        loss = step(rate)
        mean = SMOOTHING * mean + (1 - SMOOTHING) * loss
        smoothed = mean / (1 - SMOOTHING ** (number + 1))
        if not math.isfinite(loss) or (rows and smoothed > BLOWN_UP * min(row[2] for row in rows)):
            break
        rows.append((rate, loss, smoothed))
    return rows


def steepest(rows: list[tuple[float, float, float]], stride: int = 5) -> float | None:
    """The rate in the middle of the `stride` rates over which the smoothed loss falls most; None where it never falls."""
    falls = [
        (rows[index + stride][2] - rows[index][2], rows[index + stride // 2][0])
        for index in range(len(rows) - stride)
    ]
    fall, rate = min(falls, default=(0.0, 0.0))
    return rate if fall < 0 else None


def _stepper(network: torch.nn.Module, module: LeakModule, data: LeakDataModule) -> Callable[[float], float]:
    """Trains `network` by one batch at the given rate."""
    config, leak_index = module.config, data.labels.leak_index
    optimizer = adamw(network, config.optimizer, torch.device("cpu"))
    loader = data.train_dataloader()
    batches = iter(loader)

    def step(rate: float) -> float:
        nonlocal batches
        batch = next(batches, None)
        if batch is None:
            loader.set_epoch(loader.epoch + 1)
            batches = iter(loader)
            batch = next(batches)
        for group in optimizer.param_groups:
            group["lr"] = rate
        output = network(augmented(batch.mel.float(), config.augment))
        loss = loss_parts(output, batch.class_id, batch.weight, config.loss, module.weights, leak_index).total
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(
            network.parameters(), config.trainer.get("gradient_clip_val") or math.inf
        )
        optimizer.step()
        return float(loss.detach())

    network.train()
    return step


def find_batch_size(module: LeakModule, data: LeakDataModule, folder: Path) -> int:
    """Doubles the batch size while each step gives 10 % more samples per second, fits the memory and the training split.

    Writes batch_size_finder.csv (batch size, samples per second) into `folder`.
    """
    most = len(data.train_samples)
    speed_of = timed_speed(module, data)
    rows = growing(speed_of, [size for size in BATCH_SIZES if size <= most] or [most])
    lines = ["batch_size,samples_per_s", *(f"{size},{speed:.1f}" for size, speed in rows)]
    path = folder / "batch_size_finder.csv"
    write_whole(path, lambda beside: beside.write_text("\n".join(lines) + "\n", encoding="utf-8"))
    chosen = rows[-1][0] if len(rows) == 1 or rows[-1][1] >= FASTER * rows[-2][1] else rows[-2][0]
    print(f"find_bs  data.batch_size={chosen} ({path})", flush=True)
    return chosen


def growing(speed_of: Callable[[int], float | None], sizes: list[int]) -> list[tuple[int, float]]:
    """(size, samples per second) up to the first size that is no longer FASTER, or does not fit (None).

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
            f"find_batch_size: not even {sizes[0]} samples fit the memory; take a smaller network."
        )
    return rows


def timed_speed(module: LeakModule, data: LeakDataModule) -> Callable[[int], float | None]:
    """Samples per second of training steps of a given batch size; None where the memory does not suffice."""
    device = torch.device("cuda" if module.config.trainer.get("accelerator") == "gpu" else "cpu")

    def speed(size: int) -> float | None:
        network = copy.deepcopy(module.network).to(device).train()
        mel = data.train_samples.read(0, size).to(device).float()
        started = 0.0
        try:
            for number in range(TIMED_STEPS + 1):
                if number == 1:  # the first one warms up
                    started = _now(device)
                output = network(mel)
                (output.class_logits.sum() + output.leak_logit.sum()).backward()
        except (torch.OutOfMemoryError, MemoryError):
            return None
        return TIMED_STEPS * size / (_now(device) - started)

    return speed


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def found_settings(
    config: TrainConfig, module: LeakModule, data: LeakDataModule, folder: Path
) -> TrainConfig:
    """The settings with what the finders chose."""
    if config.find_batch_size:
        config = replace(config, data=replace(config.data, batch_size=find_batch_size(module, data, folder)))
        data.config = config
    if config.find_lr:
        module.config = config
        config = replace(config, optimizer=replace(config.optimizer, lr=find_rate(module, data, folder)))
    return config
