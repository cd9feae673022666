import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from leakdet.config import LossConfig
from leakdet.detection.losses import balance_levers, class_loss, class_weights, loss_parts
from leakdet.detection.networks import Output

GENERATOR = torch.Generator().manual_seed(0)
LOGITS = torch.randn(40, 3, generator=GENERATOR)
CLASS_ID = torch.randint(0, 3, (40,), generator=GENERATOR)
ONES = torch.ones(3)


def test_focal_without_focus_is_cross_entropy():
    torch.testing.assert_close(
        class_loss(LOGITS, CLASS_ID, ONES, 0.0), functional.cross_entropy(LOGITS, CLASS_ID, reduction="none")
    )


def test_focal_is_its_formula():
    prob = LOGITS.double().softmax(1)[torch.arange(40), CLASS_ID].numpy()
    weights = torch.tensor([0.25, 0.25, 0.75])
    expected = -weights.numpy()[CLASS_ID.numpy()] * (1 - prob) ** 2 * np.log(prob)
    np.testing.assert_allclose(class_loss(LOGITS, CLASS_ID, weights, 2.0).numpy(), expected, rtol=1e-4)


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=5))
def test_weighted_ce_makes_every_class_count_alike(counts: list[int]):
    mix = torch.tensor(counts).float() / sum(counts)
    weights = class_weights(LossConfig("weighted_ce"), mix, 0)
    torch.testing.assert_close((weights * mix).std(), torch.tensor(0.0), atol=1e-5, rtol=0)
    torch.testing.assert_close(weights.mean(), torch.tensor(1.0))


def test_weights_of_boost_focal_and_ce():
    mix = torch.tensor([0.75, 0.25])
    torch.testing.assert_close(
        class_weights(LossConfig("weighted_ce", leak_weight_boost=2.5), mix, 1), torch.tensor([0.5, 3.75])
    )
    torch.testing.assert_close(
        class_weights(LossConfig("focal", alpha=0.8), mix, 1), torch.tensor([0.2, 0.8])
    )
    assert torch.equal(class_weights(LossConfig("ce"), mix, 1), torch.ones(2))
    assert class_weights(LossConfig("weighted_ce"), torch.tensor([1.0, 0.0, 1.0]), 0).tolist() == [
        1.0,
        0.0,
        1.0,
    ]


@pytest.mark.parametrize("aux_weight", [0.0, 0.3])
def test_the_parts_add_up_and_weights_scale_samples(aux_weight: float):
    config = LossConfig(aux_weight=aux_weight)
    output = Output(LOGITS, torch.randn(40, generator=GENERATOR))
    weight = torch.rand(40, generator=GENERATOR)
    parts = loss_parts(output, CLASS_ID, weight, config, ONES, leak_index=2)
    torch.testing.assert_close(parts.total, parts.class_loss + aux_weight * parts.leak_loss)
    expected = (functional.cross_entropy(LOGITS, CLASS_ID, reduction="none") * weight).mean()
    torch.testing.assert_close(parts.class_loss, expected)
    truth = (CLASS_ID == 2).float()
    bce = functional.binary_cross_entropy_with_logits(output.leak_logit, truth, weight=weight)
    torch.testing.assert_close(parts.leak_loss, bce)


@pytest.mark.parametrize(
    ("config", "sampling", "levers"),
    [
        (LossConfig("ce"), "natural", 0),
        (LossConfig("ce"), "balanced", 1),
        (LossConfig("weighted_ce"), "natural", 1),
        (LossConfig("weighted_ce"), "balanced", 1),  # what is drawn is balanced: the weights are all 1
        (LossConfig("weighted_ce", leak_weight_boost=2.5), "natural", 2),
        (LossConfig("focal"), "oversampled", 2),
        (LossConfig("focal", alpha=0.5), "balanced", 1),
    ],
)
def test_levers_that_multiply_are_counted(config: LossConfig, sampling: str, levers: int):
    assert len(balance_levers(config, sampling)) == levers
