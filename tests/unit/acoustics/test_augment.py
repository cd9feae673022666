"""Every augmentation is drawn per sample, does what it says, and leaves what it must."""

import numpy as np
import pytest
import torch

from leakdet.acoustics.augment import (
    augmented,
    draw_mixup,
    mask,
    mix_interference,
    random_gain,
    smooth_random_eq,
)
from leakdet.config import AugmentConfig

MEL = -60 + 5 * torch.randn(6, 3, 16, 2, generator=torch.Generator().manual_seed(0))


def test_nothing_is_changed_when_all_is_off() -> None:
    assert torch.equal(augmented(MEL, AugmentConfig(eq_db=0.0)), MEL)


@pytest.mark.parametrize(
    "config",
    [
        AugmentConfig(),
        AugmentConfig(eq_db=0.0, gain_db=3.0),
        AugmentConfig(eq_db=0.0, mask_mels=8, mask_columns=3),
    ],
)
def test_draws_differ_between_samples_and_repeat_with_the_seed(config: AugmentConfig) -> None:
    same = MEL[:1].expand(6, -1, -1, -1)
    torch.manual_seed(3)
    first = augmented(same, config)
    torch.manual_seed(3)
    assert torch.equal(augmented(same, config), first)
    assert len({tuple(sample.flatten().tolist()) for sample in first}) > 2


def test_eq_is_smooth_along_mels_and_constant_along_time() -> None:
    torch.manual_seed(0)
    curve = smooth_random_eq(MEL, 6.0, 3) - MEL
    torch.testing.assert_close(curve, curve[:, :1, :, :1].expand_as(curve), atol=1e-4, rtol=0)
    assert float(curve.diff(dim=2).abs().max()) < float(curve.abs().max())


def test_gain_shifts_whole_samples() -> None:
    shift = random_gain(MEL, 3.0) - MEL
    torch.testing.assert_close(shift, shift[:, :1, :1, :1].expand_as(shift), atol=1e-4, rtol=0)


def test_masks_are_filled_with_the_mean_and_no_wider_than_told() -> None:
    torch.manual_seed(0)
    changed = (mask(MEL, 4, 0) != MEL).any(-1).any(1)
    assert 0 < int(changed.sum(1).max()) <= 4
    torch.manual_seed(0)
    masked = mask(MEL, 4, 0)
    filled = masked[changed[:, None, :, None].expand_as(masked)]
    assert float(filled.max()) < -50  # never 0 dB


def test_interference_adds_power_to_its_share_of_the_samples() -> None:
    clips = -30 + torch.zeros(2, 3, 16, 2)
    assert torch.equal(mix_interference(MEL, clips, 0.0, 0.0, 0.0), MEL)
    flat = torch.full_like(MEL, -60.0)
    both = mix_interference(flat, clips, 1.0, 0.0, 0.0)
    torch.testing.assert_close(both, flat + 10 * np.log10(2.0), atol=1e-3, rtol=0)


def test_mixup_pairs_every_sample_with_one() -> None:
    partner, share = draw_mixup(50, 0.4, torch.device("cpu"))
    assert sorted(partner.tolist()) == list(range(50))
    assert 0 <= float(share.min()) <= float(share.max()) <= 1
