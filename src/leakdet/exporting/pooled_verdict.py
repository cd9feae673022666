"""From the probabilities of windows to a verdict, as operations on tensors.

Equals `detection/pooling.py`, `detection/decision.py` and `detection/spectral_reference.py`.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from leakdet.detection.detector import MelDetector
from leakdet.detection.logistic import SATURATION
from leakdet.detection.spectral_reference import LIMITS, SpectralReference

UNDECIDED = -1
LEVEL_DB = -50.0  # moments count from here, so that float32 holds them


class Pooled(NamedTuple):
    """A verdict: leak 1, no leak 0, undecided -1."""

    leak_prob: Float[Tensor, ""]
    decision: Int[Tensor, ""]
    familiarity: Float[Tensor, ""]
    moments: Float[Tensor, "3 M"]


class PooledVerdict(nn.Module):
    """Pool the live windows of a recording and apply the rule; NaN where there are none."""

    def __init__(self, detector: MelDetector) -> None:
        super().__init__()
        self.rule = rule = detector.rule
        self.share = Fraction(rule.vote_fraction).limit_denominator(1_000_000)
        self.threshold = float32_at_least(rule.threshold)
        self.limit = LIMITS[rule.unfamiliar]
        self.reference = Familiarity(detector.reference) if detector.reference else None

    def forward(
        self,
        prob: Float[Tensor, " W"],
        live: Bool[Tensor, " W"],
        mel: Float[Tensor, "W S M T"],
        earlier_moments: Float[Tensor, "3 M"],
    ) -> Pooled:
        leak_prob = self.pooled(prob, live)
        familiarity = torch.full((), torch.nan)
        unfamiliar = torch.zeros((), dtype=torch.bool)
        moments = earlier_moments + window_moments(mel, live)
        if self.reference is not None:
            familiarity = self.reference(moments)
            unfamiliar = familiarity > self.limit
        undecided = leak_prob.isnan() | unfamiliar
        leak = (leak_prob >= self.threshold).to(torch.int64)
        decision = torch.where(undecided, UNDECIDED, leak)
        return Pooled(leak_prob, decision, familiarity, moments)

    def pooled(self, prob: Float[Tensor, " W"], live: Bool[Tensor, " W"]) -> Float[Tensor, ""]:
        """The score of the live windows, NaN without any."""
        count = live.to(prob.dtype).sum()
        match self.rule.pooling:
            case "mean":
                return torch.where(live, prob, 0.0).sum() / count
            case "logit_mean":
                odds = prob.clamp(min=SATURATION).log() - (1.0 - prob).clamp(min=SATURATION).log()
                return (torch.where(live, odds, 0.0).sum() / count).sigmoid()
        windows = live.to(torch.int64).sum()
        top, bottom = self.share.numerator, self.share.denominator
        needed = ((windows * top + bottom - 1) // bottom).clamp(min=1)
        ranked = torch.where(live, prob, -1.0).sort(descending=True).values
        score = ranked[needed - 1]
        return torch.where(score < 0.0, torch.nan, score)


def float32_at_least(value: float) -> float:
    """The smallest float32 that is not below; a float32 reaches it where it reaches the value."""
    near = np.float32(value)
    return float(near if float(near) >= value else np.nextafter(near, np.float32(2.0)))


def window_moments(mel: Float[Tensor, "W S M T"], live: Bool[Tensor, " W"]) -> Float[Tensor, "3 M"]:
    """Sums over the live windows of each band's mean and mean square, and of 1."""
    level = mel - LEVEL_DB
    mean = level.mean(dim=(1, 3))
    square = (level - mean[:, None, :, None]).square().mean(dim=(1, 3)) + mean.square()
    of_windows = torch.stack([mean, square, torch.ones_like(mean)], dim=1)
    return torch.where(live[:, None, None], of_windows, 0.0).sum(0)


class Familiarity(nn.Module):
    """Distance to the training recordings over its limit, from the moments of a recording."""

    kept: Tensor
    means: Tensor
    whitening: Tensor

    def __init__(self, reference: SpectralReference) -> None:
        super().__init__()
        whitened = reference.means @ reference.whitening
        for name, value in (
            ("kept", reference.kept),
            ("means", whitened),
            ("whitening", reference.whitening),
        ):
            self.register_buffer(name, torch.from_numpy(value).float(), persistent=False)
        self.nearest_db = float(reference.facts["nearest_db"])
        self.mahalanobis = float(reference.facts["mahalanobis"])

    def forward(self, moments: Float[Tensor, "3 M"]) -> Float[Tensor, ""]:
        mean, square = moments[0] / moments[2], moments[1] / moments[2]
        spread = (square - mean.square()).clamp(min=0.0).sqrt()
        features = torch.cat([mean - mean.mean(), spread])
        nearest = (features - self.kept).square().mean(1).min().sqrt() / self.nearest_db
        distance = (features @ self.whitening - self.means).square().sum(1).min().sqrt()
        return (nearest * distance / self.mahalanobis).sqrt()
