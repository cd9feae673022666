"""Sounds without a leak that train beside the recordings, at a low weight.

A network that never met rain, taps or machines calls them leaks. These sounds are no recordings:
nothing counts or scores them, and the classes of the recordings stay as balanced as they are.
"""

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from leakdet.acoustics.augment import augmented
from leakdet.config import AugmentConfig, TrainConfig
from leakdet.detection.losses import loss_parts
from leakdet.detection.networks import Output
from leakdet.errors import SettingsError

if TYPE_CHECKING:
    from leakdet.training.datamodule import LeakDataModule

SAMPLES_PER_NEGATIVE = 4  # in a batch; more negatives would lower the noise, and cost time


def check_negatives(data: "LeakDataModule") -> None:
    """Raise `SettingsError` where it is unclear which class the negatives belong to."""
    folder, names = data.config.data.negatives, data.labels.names
    if folder is not None and len(names) > 2:
        raise SettingsError(
            f"data.negatives={folder}: with labels.mode=multiclass it is unclear which of "
            f"{', '.join(names)} they are. List them in the manifest, each with its label and a "
            "low weight, or use labels=binary."
        )


def with_negatives(
    mel: Float[Tensor, "B U M T"], negatives: Tensor | None, augment: AugmentConfig
) -> Float[Tensor, "N U M T"]:
    """The batch, and behind it a random negative for every four samples, augmented as they are."""
    if negatives is None:
        return mel
    count = -(-len(mel) // SAMPLES_PER_NEGATIVE)
    drawn = torch.randint(len(negatives), (count,), device=mel.device)
    return torch.cat([mel, augmented(negatives.index_select(0, drawn), augment)])


def divided(output: Output, samples: int) -> tuple[Output, Output]:
    """The output for the first `samples`, and that for the negatives behind them."""
    first, rest = slice(samples), slice(samples, None)
    return Output(*(part[first] for part in output)), Output(*(part[rest] for part in output))


def negatives_loss(
    output: Output,
    config: TrainConfig,
    weights: Float[Tensor, " C"],
    leak_index: int,
    count: float,
) -> Tensor:
    """The loss of negatives times `data.negatives_weight`, a sum divided by `count`."""
    logit = output.leak_logit
    weight = torch.full_like(logit, config.data.negatives_weight)
    no_leak = torch.full_like(logit, 1 - leak_index, dtype=torch.int64)
    return loss_parts(output, no_leak, weight, config.loss, weights, leak_index, count).total
