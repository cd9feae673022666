"""Augmentations of training samples, drawn anew for each sample on its device."""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from leakdet.config import AugmentConfig


def augmented(
    mel: Float[Tensor, "B S M T"],
    config: AugmentConfig,
    interference: Float[Tensor, "K S M T"] | None = None,
) -> Float[Tensor, "B S M T"]:
    """Apply every augmentation that is on, in physical order: other sounds, pipe, gain, masks."""
    if interference is not None:
        mel = mix_interference(mel, interference, config.interference_prob, *config.interference_db)
    if config.eq_db > 0:
        mel = smooth_random_eq(mel, config.eq_db, config.eq_terms)
    if config.gain_db > 0:
        mel = random_gain(mel, config.gain_db)
    if config.mask_mels > 0 or config.mask_columns > 0:
        mel = mask(mel, config.mask_mels, config.mask_columns)
    return mel


def smooth_random_eq(
    mel: Float[Tensor, "B S M T"], eq_db: float, terms: int
) -> Float[Tensor, "B S M T"]:
    """Add a random smooth curve along the mel axis to each sample, as pipes and sensors colour it.

    The curve is a sum of `terms` cosines with random phase; term k has k half-periods over the mel
    axis and an amplitude of eq_db * 0.6 * N(0, 1) / sqrt(k) dB.
    """
    samples, _, mels, _ = mel.shape
    k = torch.arange(1, terms + 1, device=mel.device, dtype=mel.dtype)
    position = torch.arange(mels, device=mel.device, dtype=mel.dtype) / mels
    normal = torch.randn(samples, terms, device=mel.device, dtype=mel.dtype)
    amplitude = eq_db * 0.6 * normal / k.sqrt()
    phase = 2 * math.pi * torch.rand(samples, terms, device=mel.device, dtype=mel.dtype)
    angle = math.pi * k[:, None] * position + phase[:, :, None]
    curve = (amplitude[:, :, None] * angle.cos()).sum(1)
    return mel + curve[:, None, :, None]


def random_gain(mel: Float[Tensor, "B S M T"], gain_db: float) -> Float[Tensor, "B S M T"]:
    """Shift each sample's level by gain_db * N(0, 1) dB."""
    return mel + gain_db * torch.randn(len(mel), 1, 1, 1, device=mel.device, dtype=mel.dtype)


def mask(mel: Float[Tensor, "B S M T"], mels: int, columns: int) -> Float[Tensor, "B S M T"]:
    """Mask up to `mels` bands and up to `columns` columns (SpecAugment, Park et al. 2019).

    Masks are filled with the sample's mean, since 0 dB would be the loudest possible sound.
    """
    samples, segments, bands, frames = mel.shape
    band = _random_spans(samples, bands, mels, mel.device)[:, None, :, None]
    column = _random_spans(samples, segments * frames, columns, mel.device)
    column = column.view(samples, segments, 1, frames)
    return torch.where(band | column, mel.mean((1, 2, 3), keepdim=True), mel)


def _random_spans(
    samples: int, length: int, widest: int, device: torch.device
) -> Bool[Tensor, "B N"]:
    """A random span of 0 to `widest` positions out of `length` for each sample."""
    width = torch.randint(0, min(widest, length) + 1, (samples, 1), device=device)
    start = (torch.rand(samples, 1, device=device) * (length - width + 1)).floor()
    position = torch.arange(length, device=device)
    return (position >= start) & (position < start + width)


def mix_interference(
    mel: Float[Tensor, "B S M T"],
    clips: Float[Tensor, "K S M T"],
    prob: float,
    low_db: float,
    high_db: float,
) -> Float[Tensor, "B S M T"]:
    """Add the power of a random clip to a share `prob` of the samples.

    The clip's mean level lies low_db to high_db above the sample's own, drawn uniformly.
    """
    drawn = torch.randint(len(clips), (len(mel),), device=mel.device)
    clip = clips.index_select(0, drawn).to(mel.dtype)
    uniform = torch.rand(2, len(mel), 1, 1, 1, device=mel.device, dtype=mel.dtype)
    axes = (1, 2, 3)
    level = mel.mean(axes, keepdim=True) + low_db + (high_db - low_db) * uniform[0]
    clip = clip - clip.mean(axes, keepdim=True) + level
    to_log = math.log(10) / 10  # from dB to the natural logarithm of power
    both = torch.logaddexp(mel * to_log, clip * to_log) / to_log
    return torch.where(uniform[1] < prob, both, mel)


def draw_mixup(
    samples: int, alpha: float, device: torch.device
) -> tuple[Int[Tensor, " B"], Float[Tensor, " B"]]:
    """Draw a partner and the own share, of Beta(alpha, alpha), per sample (Zhang et al. 2018)."""
    # drawn on the device and unchecked, so that the CPU need not wait for it
    concentration = torch.full((), alpha, device=device)
    beta = torch.distributions.Beta(concentration, concentration, validate_args=False)
    share = beta.sample((samples,))
    return torch.randperm(samples, device=device), share
