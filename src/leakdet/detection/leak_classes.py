"""The classes that mean a leak, taken together."""

from collections.abc import Sequence
from functools import reduce

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def any_of(class_id: Int[Tensor, " B"], leaks: Sequence[int]) -> Bool[Tensor, " B"]:
    """True for each class that is one of `leaks`."""
    return reduce(torch.logical_or, (class_id == leak for leak in leaks))


def leak_share(class_prob: Float[Tensor, "B C"], leaks: Sequence[int]) -> Float[Tensor, " B"]:
    """Probability of the classes `leaks` together, in [0, 1]."""
    one, *more = (class_prob[:, leak] for leak in leaks)
    return sum(more, one).clamp(max=1.0) if more else one
