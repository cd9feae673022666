import sys
import types
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from leakdet.config import LossConfig
from leakdet.core.errors import SettingsError
from leakdet.detection.losses import (
    any_of,
    balance_levers,
    chance_loss,
    class_weights,
    effective_balance,
    focal_loss,
    leak_loss,
    loss_parts,
)
from leakdet.detection.networks import Output, leak_probability, leak_share

PROB = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]])


def test_one_class_has_its_own_probability() -> None:
    assert torch.equal(leak_share(PROB, (2,)), PROB[:, 2])


def test_several_classes_add_up_and_never_exceed_one() -> None:
    torch.testing.assert_close(leak_share(PROB, (0, 2)), torch.tensor([0.75, 0.8]))
    assert (leak_share(PROB + 1e-6, (0, 1, 2)) <= 1).all()


def test_a_class_is_a_leak_if_it_is_any_of_them() -> None:
    assert any_of(torch.tensor([0, 1, 2, 1]), (0, 2)).tolist() == [True, False, True, False]


def test_leak_probability_blends_both_heads_or_ignores_the_untrained_one():
    output = Output(torch.tensor([[0.0, 2.0], [3.0, 0.0]]), torch.tensor([-1.0, 4.0]))
    softmax, sigmoid = output.class_logits.softmax(1), output.leak_logit.sigmoid()
    torch.testing.assert_close(
        leak_probability(output, (1,), 0.5), 0.5 * softmax[:, 1] + 0.5 * sigmoid
    )
    torch.testing.assert_close(leak_probability(output, (0,), 1.0), softmax[:, 0])
    random = output._replace(leak_logit=torch.full((2,), float("nan")))
    torch.testing.assert_close(leak_probability(random, (1,), 1.0), softmax[:, 1])


GENERATOR = torch.Generator().manual_seed(0)
LOGITS = torch.randn(40, 3, generator=GENERATOR)
CLASS_ID = torch.randint(0, 3, (40,), generator=GENERATOR)
ONES = torch.ones(3)


def test_focal_without_focus_is_cross_entropy():
    torch.testing.assert_close(
        focal_loss(LOGITS, CLASS_ID, ONES, 0.0),
        functional.cross_entropy(LOGITS, CLASS_ID, reduction="none"),
    )


def test_focal_is_its_formula():
    prob = LOGITS.double().softmax(1)[torch.arange(40), CLASS_ID].numpy()
    weights = torch.tensor([0.25, 0.25, 0.75])
    expected = -weights.numpy()[CLASS_ID.numpy()] * (1 - prob) ** 2 * np.log(prob)
    np.testing.assert_allclose(
        focal_loss(LOGITS, CLASS_ID, weights, 2.0).numpy(), expected, rtol=1e-4
    )


@pytest.mark.parametrize("smoothing", [0.05, 0.3])
@pytest.mark.parametrize("weights", [ONES, torch.tensor([0.2, 1.0, 3.0])])
def test_label_smoothing_is_that_of_torch(smoothing: float, weights: torch.Tensor):
    reference = nn.CrossEntropyLoss(weights, reduction="none", label_smoothing=smoothing)
    torch.testing.assert_close(
        focal_loss(LOGITS, CLASS_ID, weights, 0.0, smoothing), reference(LOGITS, CLASS_ID)
    )


@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_focal_smoothes_the_target_and_focuses_on_the_true_class(gamma: float):
    weights, smoothing = torch.tensor([0.25, 0.25, 0.75]), 0.1
    prob = LOGITS.double().softmax(1).numpy()
    target = np.eye(3)[CLASS_ID.numpy()] * (1 - smoothing) + smoothing / 3
    entropy = -(target * weights.numpy() * np.log(prob)).sum(1)
    focus = (1 - prob[np.arange(40), CLASS_ID.numpy()]) ** gamma
    found = focal_loss(LOGITS, CLASS_ID, weights, gamma, smoothing)
    np.testing.assert_allclose(found.numpy(), focus * entropy, rtol=1e-4)


@pytest.mark.parametrize("pos_weight", [1.0, 2.5])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_leak_loss_is_that_of_torch_on_smoothed_targets(pos_weight: float, smoothing: float):
    logit, truth = LOGITS[:, 0] * 3, (CLASS_ID == 2).float()
    reference = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(pos_weight), reduction="none")
    # the two classes' own smoothing: a leak becomes 1 - s + s / 2, the rest s / 2
    target = torch.where(truth == 1, 1 - smoothing + smoothing / 2, smoothing / 2)
    torch.testing.assert_close(
        leak_loss(logit, truth, pos_weight, smoothing), reference(logit, target)
    )


def test_two_classes_smoothed_alike_give_both_heads_the_same_loss():
    logit, truth = LOGITS[:, 0], (CLASS_ID == 2).long()
    two = torch.stack([torch.zeros_like(logit), logit], 1)
    torch.testing.assert_close(
        leak_loss(logit, truth.float(), label_smoothing=0.2),
        focal_loss(two, truth, torch.ones(2), 0.0, 0.2),
    )


@pytest.mark.parametrize("name", ["ce", "weighted_ce", "focal"])
def test_the_settings_reach_the_parts(name: str):
    config = LossConfig(name, label_smoothing=0.1, pos_weight=3.0, gamma=1.5)
    output = Output(LOGITS, LOGITS[:, 1])
    weights = class_weights(config, torch.tensor([0.5, 0.3, 0.2]), (2,))
    parts = loss_parts(output, CLASS_ID, torch.ones(40), config, weights, leaks=(2,))
    gamma = 1.5 if name == "focal" else 0.0
    torch.testing.assert_close(
        parts.class_loss, focal_loss(LOGITS, CLASS_ID, weights, gamma, 0.1).mean()
    )
    truth = (CLASS_ID == 2).float()
    torch.testing.assert_close(parts.leak_loss, leak_loss(LOGITS[:, 1], truth, 3.0, 0.1).mean())


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=5))
def test_weighted_ce_makes_every_class_count_alike(counts: list[int]):
    mix = torch.tensor(counts).float() / sum(counts)
    weights = class_weights(LossConfig("weighted_ce"), mix, (0,))
    torch.testing.assert_close((weights * mix).std(), torch.tensor(0.0), atol=1e-5, rtol=0)
    torch.testing.assert_close(weights.mean(), torch.tensor(1.0))


def test_each_of_several_leak_labels_is_boosted():
    mix, config = torch.tensor([0.5, 0.25, 0.25]), LossConfig("weighted_ce")
    plain = class_weights(config, mix, (1, 2))
    boosted = class_weights(replace(config, leak_weight_boost=2.0), mix, (1, 2))
    torch.testing.assert_close(boosted, plain * torch.tensor([1.0, 2.0, 2.0]))


def test_weights_of_boost_focal_and_ce():
    mix = torch.tensor([0.75, 0.25])
    torch.testing.assert_close(
        class_weights(LossConfig("weighted_ce", leak_weight_boost=2.5), mix, (1,)),
        torch.tensor([0.5, 3.75]),
    )
    torch.testing.assert_close(
        class_weights(LossConfig("focal", alpha=0.8), mix, (1,)), torch.tensor([0.2, 0.8])
    )
    assert torch.equal(class_weights(LossConfig("ce"), mix, (1,)), torch.ones(2))
    assert class_weights(
        LossConfig("weighted_ce"), torch.tensor([1.0, 0.0, 1.0]), (0,)
    ).tolist() == [
        1.0,
        0.0,
        1.0,
    ]


@pytest.mark.parametrize("aux_weight", [0.0, 0.3])
def test_the_parts_add_up_and_weights_scale_samples(aux_weight: float):
    config = LossConfig(aux_weight=aux_weight)
    output = Output(LOGITS, torch.randn(40, generator=GENERATOR))
    weight = torch.rand(40, generator=GENERATOR)
    parts = loss_parts(output, CLASS_ID, weight, config, ONES, leaks=(2,))
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
        # what is drawn is balanced: the weights are all 1
        (LossConfig("weighted_ce"), "balanced", 1),
        (LossConfig("weighted_ce", leak_weight_boost=2.5), "natural", 2),
        (LossConfig("focal"), "oversampled", 2),
        (LossConfig("focal", alpha=0.5), "balanced", 1),
    ],
)
def test_levers_that_multiply_are_counted(config: LossConfig, sampling: str, levers: int):
    assert len(balance_levers(config, sampling)) == levers


def own_losses(logits: torch.Tensor, class_id: torch.Tensor, power: float = 1.0) -> torch.Tensor:
    return (1.0 - logits.softmax(1).gather(1, class_id[:, None]).squeeze(1)) ** power


def mean_loss(logits: torch.Tensor, class_id: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits, class_id)


@pytest.fixture
def own_module(monkeypatch: pytest.MonkeyPatch) -> str:
    module = types.ModuleType("a_persons_losses")
    module.own_losses, module.mean_loss, module.number = own_losses, mean_loss, 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module.__name__


def test_a_users_loss_takes_the_place_of_the_class_loss(own_module: str):
    config = LossConfig(f"{own_module}:own_losses", aux_weight=0.5, extra={"power": 2.0})
    output = Output(LOGITS, LOGITS[:, 0])
    weights = class_weights(config, torch.tensor([0.5, 0.3, 0.2]), (2,))
    parts = loss_parts(output, CLASS_ID, torch.full((40,), 0.5), config, weights, (2,))
    torch.testing.assert_close(parts.class_loss, own_losses(LOGITS, CLASS_ID, 2.0).mean() / 2)
    torch.testing.assert_close(parts.total, parts.class_loss + 0.5 * parts.leak_loss)
    assert chance_loss(CLASS_ID, weights, config) == pytest.approx((2 / 3) ** 2)
    assert balance_levers(config, "natural") == []


@pytest.mark.parametrize(
    ("name", "extra", "message"),
    [
        ("missing", {}, "has no missing"),
        ("number", {}, "not a callable"),
        ("own_losses", {"pover": 2.0}, r"loss.extra=\{'pover': 2.0\}"),
        ("mean_loss", {}, r"returned \[\] for 40 samples"),
    ],
)
def test_a_faulty_user_loss_is_refused(
    own_module: str, name: str, extra: dict[str, object], message: str
):
    config = LossConfig(f"{own_module}:{name}", extra=extra)
    with pytest.raises(SettingsError, match=message):
        loss_parts(Output(LOGITS, LOGITS[:, 0]), CLASS_ID, torch.ones(40), config, ONES, (2,))


def test_the_balance_in_the_loss_is_the_mix_times_the_weights():
    balance = effective_balance(torch.tensor([0.8, 0.2]), torch.tensor([0.5, 2.0]))
    torch.testing.assert_close(balance, torch.tensor([0.5, 0.5]))


@given(st.integers(2, 6))
def test_chance_is_the_logarithm_of_the_classes(classes: int):
    chance = chance_loss(torch.zeros(3, dtype=torch.long), torch.ones(classes), LossConfig())
    assert chance == pytest.approx(np.log(classes))
