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


def class_weights(
    config: LossConfig, mix: Float[Tensor, " C"], leak_index: int
) -> Float[Tensor, " C"]:
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
    logits: Float[Tensor, "B C"],
    class_id: Int[Tensor, " B"],
    weights: Float[Tensor, " C"],
    gamma: float,
    label_smoothing: float = 0.0,
) -> Float[Tensor, " B"]:
    """(1 - p)^gamma * weighted cross-entropy per sample, p the probability given to the true class (Lin et al. 2017).

    gamma = 0 is weighted cross-entropy. With label smoothing s the target is 1 - s on the true class and s / C on every class.
    """
    log_prob = functional.log_softmax(logits.float(), -1)
    true = log_prob.gather(1, class_id[:, None]).squeeze(1)
    loss = -weights[class_id] * true
    if label_smoothing > 0:
        everywhere = -(log_prob * weights).mean(1)
        loss = (1.0 - label_smoothing) * loss + label_smoothing * everywhere
    return loss if gamma == 0 else (1.0 - true.exp()).pow(gamma) * loss


def leak_loss(
    leak_logit: Float[Tensor, " B"],
    is_leak: Float[Tensor, " B"],
    pos_weight: float = 1.0,
    label_smoothing: float = 0.0,
) -> Float[Tensor, " B"]:
    """Binary cross-entropy per sample; leaks count `pos_weight` times, targets are 1 - s / 2 and s / 2 under smoothing s."""
    target = is_leak * (1.0 - label_smoothing) + label_smoothing / 2
    positive = None if pos_weight == 1 else leak_logit.new_full((), pos_weight, dtype=torch.float32)
    return functional.binary_cross_entropy_with_logits(
        leak_logit.float(), target, pos_weight=positive, reduction="none"
    )


def loss_parts(
    output: Output,
    class_id: Int[Tensor, " B"],
    sample_weight: Float[Tensor, " B"],
    config: LossConfig,
    weights: Float[Tensor, " C"],
    leak_index: int,
    count: float | None = None,
) -> LossParts:
    """Both losses over a batch. `sample_weight` scales a sample's share; the mean is over samples, so batches add up.

    `count` replaces the number of samples in the mean: a batch that is a piece of a larger one divides by the larger number.
    """
    gamma = config.gamma if config.name == "focal" else 0.0
    count = len(class_id) if count is None else count
    classes = class_loss(output.class_logits, class_id, weights, gamma, config.label_smoothing)
    is_leak = (class_id == leak_index).float()
    leaks = leak_loss(output.leak_logit, is_leak, config.pos_weight, config.label_smoothing)
    class_part = (classes * sample_weight).sum() / count
    leak_part = (leaks * sample_weight).sum() / count
    return LossParts(class_part + config.aux_weight * leak_part, class_part, leak_part)


def chance_loss(
    class_id: Int[Tensor, " B"], weights: Float[Tensor, " C"], config: LossConfig
) -> float:
    """The class loss of a network that gives every class the same probability: ln C, weighted and focused as configured."""
    logits = torch.zeros(len(class_id), len(weights), device=class_id.device)
    gamma = config.gamma if config.name == "focal" else 0.0
    return float(class_loss(logits, class_id, weights, gamma, config.label_smoothing).mean())


def effective_balance(
    mix: Float[Tensor, " C"], weights: Float[Tensor, " C"]
) -> Float[Tensor, " C"]:
    """Share of each class in the class loss: what the sampler draws of it (`mix`, or that times the samples' own weights)
    times what the loss makes of it.
    """
    pull = mix * weights
    return pull / pull.sum()


def balance_levers(config: LossConfig, sampling: str) -> list[str]:
    """The settings that shift the class balance. They multiply, so more than one is refused unless told."""
    active = {
        f"data.sampling={sampling}": sampling != "natural",
        "loss.name=weighted_ce": config.name == "weighted_ce"
        and sampling == "natural",  # else its weights are all 1
        f"loss.leak_weight_boost={config.leak_weight_boost:g}": config.name == "weighted_ce"
        and config.leak_weight_boost != 1,
        f"loss.alpha={config.alpha:g}": config.name == "focal" and config.alpha != 0.5,
        f"loss.pos_weight={config.pos_weight:g}": config.aux_weight > 0 and config.pos_weight != 1,
    }
    return [lever for lever, on in active.items() if on]
