"""Finds a batch size before a run: the fastest that fits, with a tenth of the memory to spare."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import torch

from leakdet._memory_errors import memory_sentence
from leakdet._messages import LOG
from leakdet.errors import LeakdetError
from leakdet.loading.eval_loader import WINDOWS
from leakdet.loading.placement import host_used_share
from leakdet.storage.csv_file import write_csv
from leakdet.training.compilation import Precision
from leakdet.training.datamodule import LeakDataModule
from leakdet.training.gpu_readings import read_gpu_memory
from leakdet.training.module import LeakModule
from leakdet.training.trial_step import TrialStep

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
