"""Losses as pure functions that return their parts."""

from collections.abc import Callable, Sequence
from functools import reduce
from inspect import signature
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from leakdet.config import LossConfig
from leakdet.core.errors import SettingsError
from leakdet.core.plugins import import_named
from leakdet.detection.networks import Output


def any_of(class_id: Int[Tensor, " B"], leaks: Sequence[int]) -> Bool[Tensor, " B"]:
    """True for each class that is one of `leaks`."""
    return reduce(torch.logical_or, (class_id == leak for leak in leaks))


class LossParts(NamedTuple):
    """Means over the batch: total = class_loss + aux_weight * leak_loss."""

    total: Tensor
    class_loss: Tensor
    leak_loss: Tensor


def class_weights(
    config: LossConfig, mix: Float[Tensor, " C"], leaks: Sequence[int]
) -> Float[Tensor, " C"]:
    """Weight of each class, mean 1 before the boost of the classes `leaks`.

    weighted_ce: proportional to 1 / `mix`, the share of each class in what the sampler draws (0 for
    a class that is never drawn); focal: alpha for the leak, 1 - alpha for the rest; others: 1.
    """
    match config.name:
        case "focal":
            weights = torch.full_like(mix, 1.0 - config.alpha)
            weights[list(leaks)] = config.alpha
        case "weighted_ce":
            inverse = torch.where(mix > 0, 1.0 / mix.clamp(min=1e-12), 0.0)
            weights = inverse / inverse[mix > 0].mean()
            weights[list(leaks)] *= config.leak_weight_boost
        case _:
            weights = torch.ones_like(mix)
    return weights


def class_loss(
    logits: Float[Tensor, "B C"],
    class_id: Int[Tensor, " B"],
    weights: Float[Tensor, " C"],
    config: LossConfig,
) -> Float[Tensor, " B"]:
    """The class loss of each sample that `config` names.

    A function of the user gets the float32 logits, the class ids and `config.extra`; class weights
    and label smoothing apply to the built-in losses only.
    """
    match config.name:
        case "ce" | "weighted_ce":
            return focal_loss(logits, class_id, weights, 0.0, config.label_smoothing)
        case "focal":
            return focal_loss(logits, class_id, weights, config.gamma, config.label_smoothing)
    loss = own_loss(config)(logits.float(), class_id, **config.extra)
    if not isinstance(loss, Tensor) or loss.shape != class_id.shape:
        shape = list(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
        raise SettingsError(
            f"loss.name={config.name}: it returned {shape} for {len(class_id)} samples; it must "
            "return one loss for each, a tensor [B], not their mean."
        )
    return loss


def own_loss(config: LossConfig) -> Callable[..., object]:
    """The function `package.module:function` that `config` names."""
    function: Callable[..., object] = import_named("loss.name", config.name)
    try:
        signature(function).bind(None, None, **config.extra)
    except TypeError as error:
        raise SettingsError(
            f"loss.extra={config.extra}: {config.name}(class_logits, class_id, **loss.extra) "
            f"cannot be called ({error})."
        ) from error
    return function


def focal_loss(
    logits: Float[Tensor, "B C"],
    class_id: Int[Tensor, " B"],
    weights: Float[Tensor, " C"],
    gamma: float,
    label_smoothing: float = 0.0,
) -> Float[Tensor, " B"]:
    """Focal loss of each sample [Lin et al. 2017]: (1 - p)^gamma * weighted cross-entropy.

    p is the probability of the true class; gamma = 0 is weighted cross-entropy. With label
    smoothing s the target is 1 - s on the true class and s / C on every class.
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
    """Binary cross-entropy of each sample; leaks count `pos_weight` times.

    With label smoothing s the targets are 1 - s / 2 and s / 2.
    """
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
    leaks: Sequence[int],
    count: float | None = None,
) -> LossParts:
    """Both losses of a batch, each sample times `sample_weight`, as sums divided by `count`.

    `count` is the number of samples by default; for a part of a larger batch it is that of the
    larger one, so that the parts add up.
    """
    count = len(class_id) if count is None else count
    classes = class_loss(output.class_logits, class_id, weights, config)
    is_leak = any_of(class_id, leaks).float()
    of_leaks = leak_loss(output.leak_logit, is_leak, config.pos_weight, config.label_smoothing)
    class_part = (classes * sample_weight).sum() / count
    leak_part = (of_leaks * sample_weight).sum() / count
    return LossParts(class_part + config.aux_weight * leak_part, class_part, leak_part)


def chance_loss(
    class_id: Int[Tensor, " B"], weights: Float[Tensor, " C"], config: LossConfig
) -> float:
    """Mean class loss at equal logits: ln C for plain cross-entropy."""
    logits = torch.zeros(len(class_id), len(weights), device=class_id.device)
    return float(class_loss(logits, class_id, weights, config).mean())


def effective_balance(
    mix: Float[Tensor, " C"], weights: Float[Tensor, " C"]
) -> Float[Tensor, " C"]:
    """Share of each class in the class loss, from its share in the batches and its weight."""
    product = mix * weights
    return product / product.sum()


def balance_levers(config: LossConfig, sampling: str) -> list[str]:
    """The settings, `name=value`, that shift the class balance; their effects multiply."""
    weighted = config.name == "weighted_ce"
    active = {
        f"data.sampling={sampling}": sampling != "natural",
        # after another sampling its weights are all 1
        "loss.name=weighted_ce": weighted and sampling == "natural",
        f"loss.leak_weight_boost={config.leak_weight_boost:g}": (
            weighted and config.leak_weight_boost != 1
        ),
        f"loss.alpha={config.alpha:g}": config.name == "focal" and config.alpha != 0.5,
        f"loss.pos_weight={config.pos_weight:g}": config.aux_weight > 0 and config.pos_weight != 1,
    }
    return [lever for lever, on in active.items() if on]
