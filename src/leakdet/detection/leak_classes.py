"""The classes that mean a leak, taken together."""

from collections.abc import Sequence
from functools import reduce

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from leakdet.detection.networks import Output


def any_of(class_id: Int[Tensor, " B"], leaks: Sequence[int]) -> Bool[Tensor, " B"]:
    """True for each class that is one of `leaks`."""
    return reduce(torch.logical_or, (class_id == leak for leak in leaks))


def leak_share(class_prob: Float[Tensor, "B C"], leaks: Sequence[int]) -> Float[Tensor, " B"]:
    """Probability of the classes `leaks` together, in [0, 1]."""
    one, *more = (class_prob[:, leak] for leak in leaks)
    return sum(more, one).clamp(max=1.0) if more else one


def leak_probability(output: Output, leaks: Sequence[int], blend: float) -> Float[Tensor, " B"]:
    """blend * sum of softmax(class_logits) over `leaks` + (1 - blend) * sigmoid(leak_logit).

    `blend` is 1 when the auxiliary head was not trained: its weights are random then and must not
    count.
    """
    prob = leak_share(output.class_logits.float().softmax(-1), leaks)
    return (
        prob if blend == 1.0 else blend * prob + (1.0 - blend) * output.leak_logit.float().sigmoid()
    )
