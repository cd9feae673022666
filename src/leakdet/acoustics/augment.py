"""Changes to training samples, drawn anew for each sample on its device. None of them touches validation."""

import math

import torch
from jaxtyping import Float
from torch import Tensor


def smooth_random_eq(mel: Float[Tensor, "B S M T"], eq_db: float, terms: int) -> Float[Tensor, "B S M T"]:
    """Add to each sample's log-mel, along the mel axis, a sum of cosines with random phase: the colouring of pipes and sensors.

    Term k of 1..terms has k half-periods over the mel axis and an amplitude of eq_db * 0.6 * N(0, 1) / sqrt(k) dB.
    """
    samples, _, mels, _ = mel.shape
    k = torch.arange(1, terms + 1, device=mel.device, dtype=mel.dtype)
    position = torch.arange(mels, device=mel.device, dtype=mel.dtype) / mels
    amplitude = eq_db * 0.6 * torch.randn(samples, terms, device=mel.device, dtype=mel.dtype) / k.sqrt()
    phase = 2 * math.pi * torch.rand(samples, terms, device=mel.device, dtype=mel.dtype)
    angle = math.pi * k[:, None] * position + phase[:, :, None]
    curve = (amplitude[:, :, None] * angle.cos()).sum(1)
    return mel + curve[:, None, :, None]
