"""Losses as pure functions that return their parts."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from leakdet.config import LossConfig
from leakdet.detection.networks import Output


class LossParts(NamedTuple):
    """Each a mean over the batch: total = class_loss + aux_weight * leak_loss."""

    total: Tensor
    class_loss: Tensor
    leak_loss: Tensor


def class_weights(config: LossConfig, mix: Float[Tensor, " C"], leak_index: int) -> Float[Tensor, " C"]:
    """Weight of each class, mean 1 before the leak's boost.

    weighted_ce: proportional to 1 / n_c, where `mix` counts what the sampler really draws (a class that is never drawn gets 0);
    focal: alpha for the leak, 1 - alpha for the rest; ce: 1.
    """
    if config.name == "focal":
        weights = torch.full_like(mix, 1.0 - config.alpha)
        weights[leak_index] = config.alpha
        return weights
    if config.name == "ce":
        return torch.ones_like(mix)
    inverse = torch.where(mix > 0, 1.0 / mix.clamp(min=1e-12), 0.0)
    weights = inverse / inverse[mix > 0].mean()
    weights[leak_index] *= config.leak_weight_boost
    return weights


def class_loss(
    logits: Float[Tensor, "B C"], class_id: Int[Tensor, " B"], weights: Float[Tensor, " C"], gamma: float
) -> Float[Tensor, " B"]:
    """weights[class] * (1 - p)^gamma * cross-entropy per sample, p the probability given to the true class (Lin et al. 2017).

    gamma = 0 is weighted cross-entropy.
    """
    log_prob = functional.log_softmax(logits.float(), -1).gather(1, class_id[:, None]).squeeze(1)
    focus = 1.0 if gamma == 0 else (1.0 - log_prob.exp()).pow(gamma)
    return -weights[class_id] * focus * log_prob


def loss_parts(
    output: Output,
    class_id: Int[Tensor, " B"],
    sample_weight: Float[Tensor, " B"],
    config: LossConfig,
    weights: Float[Tensor, " C"],
    leak_index: int,
) -> LossParts:
    """Both losses over a batch. `sample_weight` scales a sample's share; the mean is over samples, so batches add up."""
    gamma = config.gamma if config.name == "focal" else 0.0
    classes = (class_loss(output.class_logits, class_id, weights, gamma) * sample_weight).mean()
    is_leak = (class_id == leak_index).float()
    leaks = functional.binary_cross_entropy_with_logits(output.leak_logit.float(), is_leak, reduction="none")
    leak = (leaks * sample_weight).mean()
    return LossParts(classes + config.aux_weight * leak, classes, leak)


def balance_levers(config: LossConfig, sampling: str) -> list[str]:
    """The settings that shift the class balance. They multiply, so more than one is refused unless told."""
    active = {
        f"data.sampling={sampling}": sampling != "natural",
        "loss.name=weighted_ce": config.name == "weighted_ce"
        and sampling == "natural",  # else its weights are all 1
        f"loss.leak_weight_boost={config.leak_weight_boost:g}": config.name == "weighted_ce"
        and config.leak_weight_boost != 1,
        f"loss.alpha={config.alpha:g}": config.name == "focal" and config.alpha != 0.5,
    }
    return [lever for lever, on in active.items() if on]
