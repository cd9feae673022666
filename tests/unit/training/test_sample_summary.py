"""Moments of the samples' probabilities from sums that add up over batches and processes."""

import numpy as np
import pytest
import torch

from leakdet.detection.networks import Output
from leakdet.training.sample_summary import SampleSummary, sample_sums


@pytest.mark.parametrize("blend", [0.5, 1.0])
def test_sums_of_pieces_give_the_moments_of_the_whole(blend: float) -> None:
    generator = torch.Generator().manual_seed(1)
    output = Output(torch.randn(50, 2, generator=generator), torch.randn(50, generator=generator))
    pieces = [
        Output(output.class_logits[cut], output.leak_logit[cut])
        for cut in (slice(0, 7), slice(7, 50))
    ]
    found = SampleSummary.of(sum(sample_sums(piece, (1,), blend) for piece in pieces), blend)
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
