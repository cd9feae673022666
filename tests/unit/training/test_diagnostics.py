"""Each finding from numbers that show just that fault, and none from a healthy run's."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_curve

from leakdet.detection.networks import Output
from leakdet.training.diagnostics import (
    SampleSummary,
    collapse,
    first_batch,
    gradients,
    overfit,
    sample_sums,
    tpr_at_least_fpr,
)

HEALTHY = SampleSummary(100, 0.5, 0.3, 0.5, 0.9, (10,) * 10)


def kinds(
    samples: SampleSummary = HEALTHY, f1: float = 0.9, auroc: float = 0.95, aux: float = 0.2
) -> list[str]:
    return [
        kind
        for kind, _ in collapse(
            samples, f1, auroc, 20, 20, class_loss=0.5, aux_loss=aux, score_range=(0.1, 0.4)
        )
    ]


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ([], kinds()),
        (
            ["constant"],
            kinds(SampleSummary(100, 0.5, 0.001, 1.0, None, (0,) * 10), f1=0.0, auroc=0.5),
        ),
        (["inverted"], kinds(auroc=0.1, f1=0.67)),
        (["auxiliary"], kinds(aux=1.6)),
        (["one_class"], kinds(SampleSummary(100, 0.2, 0.1, 0.0, 0.9, (0,) * 10), f1=0.05)),
        (["low_f1"], kinds(f1=0.05)),
        (["heads"], kinds(SampleSummary(100, 0.5, 0.3, 0.5, 0.2, (10,) * 10))),
        ([], kinds(auroc=0.4)),  # with so few recordings that is chance
    ],
)
def test_a_fault_is_told_by_its_own_finding(expected: list[str], found: list[str]) -> None:
    assert found == expected


@pytest.mark.parametrize("blend", [0.5, 1.0])
def test_sums_of_pieces_give_the_moments_of_the_whole(blend: float) -> None:
    generator = torch.Generator().manual_seed(1)
    output = Output(torch.randn(50, 2, generator=generator), torch.randn(50, generator=generator))
    pieces = [
        Output(output.class_logits[cut], output.leak_logit[cut])
        for cut in (slice(0, 7), slice(7, 50))
    ]
    found = SampleSummary.of(sum(sample_sums(piece, 1, blend) for piece in pieces), blend)
    classes = output.class_logits.softmax(1)[:, 1].double().numpy()
    leaks = output.leak_logit.sigmoid().double().numpy()
    prob = blend * classes + (1 - blend) * leaks
    assert found.mean == pytest.approx(prob.mean(), abs=1e-6)
    assert found.std == pytest.approx(prob.std(), abs=1e-6)
    assert found.histogram == tuple(np.histogram(prob, 10, (0, 1))[0].tolist())
    expected = np.corrcoef(classes, leaks)[0, 1] if blend == 0.5 else None
    assert found.head_correlation == (
        pytest.approx(expected, abs=1e-5) if expected is not None else None
    )


@pytest.mark.parametrize(
    ("loss", "said"), [(math.log(2), False), (1.2, False), (1.5, True), (0.2, True)]
)
def test_the_first_loss_is_within_a_factor_of_two_of_chance(loss: float, said: bool) -> None:
    assert bool(first_batch(loss, math.log(2), 3.0)) == said


@pytest.mark.parametrize(
    ("norms", "said"),
    [
        ([1.0, 2.0], ""),
        ([1.0, math.nan], "not finite"),
        ([1e6, 1e5], "explode"),
        ([1e-9, 0.0], "vanish"),
    ],
)
def test_gradients(norms: list[float], said: str) -> None:
    found = gradients(np.array(norms), clipped_at=1.0)
    assert (said in found[0][1]) if said else found == []


def test_overfit_needs_three_checks_in_a_row() -> None:
    falling = [0.5, 0.4, 0.3, 0.2]
    assert overfit(falling, [0.9, 0.8, 0.7, 0.6])[0][0] == "overfit"
    assert overfit(falling[:3], [0.9, 0.8, 0.7]) == []
    assert overfit(falling, [0.9, 0.8, 0.8, 0.6]) == []
    assert overfit([0.5, 0.4, 0.4, 0.2], [0.9, 0.8, 0.7, 0.6]) == []
    assert overfit(falling, [None] * 4) == []


def test_tpr_at_the_smallest_resolvable_fpr_is_that_of_the_roc_curve() -> None:
    rng = np.random.default_rng(0)
    is_leak = rng.random(300) < 0.4
    scores = rng.random(300) + 0.4 * is_leak
    fpr, tpr, _ = roc_curve(is_leak, scores, drop_intermediate=False)
    assert tpr_at_least_fpr(scores, is_leak) == pytest.approx(tpr[fpr <= 0.01].max())
    assert tpr_at_least_fpr(scores[:6], np.array([True, False] * 3)) is None
