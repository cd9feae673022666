"""The random numbers of a training step, which depend on its place in the run alone."""

from collections.abc import Sequence

import numpy as np
import torch


def seed_batch(place: Sequence[int], device: torch.device) -> None:
    """Seed torch on the CPU and on `device` for the batch at `place`: seed, epoch, batch, rank."""
    seed = int(np.random.SeedSequence(place).generate_state(1, np.uint64)[0] >> 1)
    # not torch.manual_seed, which seeds every kind of accelerator: 2 ms a step
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)
