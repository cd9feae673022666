"""Finds a learning rate before a run, on a copy of its network, and applies what was found."""

import math
import statistics
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch

from leakdet._messages import LOG
from leakdet.config import TrainConfig
from leakdet.errors import LeakdetError, SettingsError
from leakdet.storage.csv_file import write_csv
from leakdet.training.batch_size_finder import find_batch_size
from leakdet.training.compilation import Precision
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.module import LeakModule
from leakdet.training.step_size import steps_line
from leakdet.training.trial_step import TrialStep

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

    Raises:
        LeakdetError: the loss never fell.
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
    device, plugin = trainer.strategy.root_device, trainer.precision_plugin
    where: Any = {"device": device, "precision": plugin.forward_context}
    if config.find_batch_size:
        size = find_batch_size(module, data, folder, **where)
        config = replace(config, data=replace(config.data, batch_size=size))
        data.set_batch_size(size)
        LOG.info(f"steps    {steps_line(config, data)}")
    if config.find_lr:
        config = replace(
            config, optimizer=replace(config.optimizer, lr=find_rate(module, data, folder, **where))
        )
    return config
