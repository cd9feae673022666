"""Sums over batches are those of all samples at once, however they are cut."""

import numpy as np
import pytest
import torch

from leakdet.config import DecisionConfig
from leakdet.detection.detector import window_mean
from leakdet.detection.leak_classes import leak_probability
from leakdet.detection.losses import LossParts
from leakdet.detection.networks import Output
from leakdet.detection.pooling import pool, pool_classes
from leakdet.loading.samples import Batch
from leakdet.training.accumulators import LossSums, ValidationAccumulator, right_samples
from leakdet.training.sample_summary import sample_sums

WINDOWS = np.array([3, 1, 2, 4])


def mean_parts(values: torch.Tensor) -> LossParts:
    return LossParts(*values.mean(0))


def test_losses_add_up_whatever_the_batches_and_after_a_reload() -> None:
    values = torch.rand(10, 3)
    whole, parts = LossSums(), LossSums()
    whole.update(mean_parts(values), 10, 10, right=torch.tensor(6))
    parts.update(mean_parts(values[:3]), 3, 3, right=2.0)
    reloaded = LossSums()
    reloaded.load(parts.compute().tolist())
    reloaded.update(mean_parts(values[3:]), 7, 7, right=4.0)
    torch.testing.assert_close(reloaded.compute(), whole.compute(), rtol=1e-6, atol=0)
    assert whole.compute().dtype == torch.float64
    assert whole.compute()[3:].tolist() == [10, 6]
    whole.reset()
    assert whole.compute().tolist() == [0.0] * 5


def test_right_samples_that_an_older_checkpoint_did_not_count_are_unknown() -> None:
    older = LossSums()
    older.load([1.0, 2.0, 3.0, 4.0])
    older.update(LossParts(*torch.ones(3)), 1, 1, right=1.0)
    *sums, right = older.compute().tolist()
    assert sums == [2.0, 3.0, 4.0, 5.0]
    assert np.isnan(right)


@pytest.mark.parametrize("pooling", ["mean", "vote"])
@pytest.mark.parametrize("cuts", [[10], [4, 6], [1, 2, 7]])
@pytest.mark.parametrize("per_window", [1, 2])
def test_scores_are_the_pooled_windows_of_this_ranks_recordings(
    pooling: str, cuts: list[int], per_window: int
) -> None:
    """Recording 1 belongs to another rank."""
    rows = np.array([0, 2, 3])
    recording = torch.from_numpy(np.repeat(rows, WINDOWS[rows] * per_window))
    count = len(recording)
    sizes = [*cuts[:-1], count - sum(cuts[:-1])]
    output = Output(torch.randn(count, 2), torch.randn(count))
    accumulator = ValidationAccumulator(WINDOWS, DecisionConfig(pooling=pooling), (1,), 0.5)
    accumulator.update(output, mean_parts(torch.rand(count, 3)), recording)
    accumulator.reset()  # of an earlier check nothing is left
    for logits, leaks, of in zip(
        output.class_logits.split(sizes),
        output.leak_logit.split(sizes),
        recording.split(sizes),
        strict=True,
    ):
        accumulator.update(Output(logits, leaks), mean_parts(torch.ones(1, 3)), of)
    sums = accumulator.compute()
    windows = window_mean(leak_probability(output, (1,), 0.5), count // per_window).numpy()
    expected = pool(windows, np.array([0, 3, 5, 9]), pooling, 0.5)
    np.testing.assert_allclose(sums.scores[rows], expected, rtol=1e-12)
    assert sums.scores[1] == 0
    assert sums.rows.tolist() == rows.tolist()
    torch.testing.assert_close(sums.samples, sample_sums(output, (1,), 0.5))
    every_window = np.zeros(10)
    every_window[[0, 1, 2, 4, 5, 6, 7, 8, 9]] = windows
    np.testing.assert_allclose(sums.window_prob, every_window)
    assert accumulator.losses.compute()[:4].tolist() == [count] * 4


def test_samples_are_right_where_the_class_head_says_so_and_unknown_where_blended() -> None:
    batch = Batch(torch.zeros(2, 1, 1, 1), *([torch.tensor([1, 0])] * 3))
    output = Output(torch.tensor([[0.0, 1.0], [0.0, 1.0]]), torch.zeros(2))
    assert float(right_samples(output, [batch])) == 1
    assert np.isnan(right_samples(output, [batch, batch]))


@pytest.mark.parametrize("cuts", [[8], [3, 5]])
def test_classes_are_pooled_where_they_are_told(cuts: list[int]) -> None:
    """Windows of two samples; recording 1 belongs to another rank."""
    windows, recording = np.array([3, 2, 1]), torch.tensor([0] * 6 + [2] * 2)
    output = Output(torch.randn(8, 3), torch.randn(8))
    accumulator = ValidationAccumulator(windows, DecisionConfig(), (0, 2), 0.5, True)
    for logits, leaks, of in zip(
        torch.split(output.class_logits, cuts),
        torch.split(output.leak_logit, cuts),
        torch.split(recording, cuts),
        strict=True,
    ):
        accumulator.update(Output(logits, leaks), mean_parts(torch.ones(1, 3)), of)
    sums = accumulator.compute()
    scores = sums.scores.numpy()[sums.rows]
    prob = output.class_logits.softmax(1).view(4, 2, 3).mean(1).numpy()
    expected = pool_classes(prob, np.array([0, 3, 4]), (0, 2), scores)
    np.testing.assert_allclose(sums.class_prob, expected, rtol=1e-6)
    np.testing.assert_allclose(sums.class_prob[:, [0, 2]].sum(axis=1), scores)
