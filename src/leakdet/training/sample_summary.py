"""The leak probabilities of a validation check's samples in a few numbers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from leakdet.detection.leak_classes import any_of, leak_share
from leakdet.detection.networks import Output

BINS = 10


def sample_sums(output: Output, leaks: Sequence[int], blend: float) -> Float[Tensor, " K"]:
    """Sums over a batch that `SampleSummary.of` reads; those of batches and processes add up."""
    by_class = output.class_logits.float().softmax(-1)
    classes, aux = leak_share(by_class, leaks), output.leak_logit.float().sigmoid()
    prob = blend * classes + (1.0 - blend) * aux if blend != 1.0 else classes
    predicted = any_of(by_class.argmax(-1), leaks).float()
    moments = [torch.ones_like(prob), prob, prob.square(), predicted, classes, aux]
    moments += [classes.square(), aux.square(), classes * aux]
    bins = (prob * BINS).long().clamp(0, BINS - 1)
    histogram = torch.nn.functional.one_hot(bins, BINS).sum(0)
    return torch.cat([torch.stack(moments).double().sum(1), histogram.double()])


@dataclass(frozen=True)
class SampleSummary:
    """Moments of the samples' leak probabilities."""

    count: int
    mean: float
    std: float
    predicted_leak_share: float  # by the class head alone
    # of the two heads; None with one head, or where one of them is constant
    head_correlation: float | None
    histogram: tuple[int, ...]  # of BINS equal bins from 0 to 1

    @classmethod
    def of(cls, sums: Float[Tensor, " K"], blend: float) -> "SampleSummary":
        """The summary from the totals of `sample_sums`."""
        count, prob, squares, predicted, a, b, aa, bb, ab, *histogram = sums.double().tolist()
        mean = prob / count
        var_a, var_b = aa / count - (a / count) ** 2, bb / count - (b / count) ** 2
        spread = math.sqrt(max(0.0, var_a) * max(0.0, var_b))
        covariance = ab / count - a * b / count**2
        return cls(
            count=int(count),
            mean=mean,
            std=math.sqrt(max(0.0, squares / count - mean**2)),
            predicted_leak_share=predicted / count,
            head_correlation=covariance / spread if blend != 1.0 and spread > 1e-9 else None,
            histogram=tuple(map(int, histogram)),
        )
