from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix, f1_score, roc_auc_score, roc_curve

from leakdet.config import DecisionConfig, TrainConfig
from leakdet.core.errors import LeakdetError
from leakdet.detection.decision import pool, pool_classes
from leakdet.detection.detector import window_mean
from leakdet.detection.losses import LossParts
from leakdet.detection.networks import Output, leak_probability
from leakdet.evaluation.metrics import binary_metrics
from leakdet.loading.samples import Batch
from leakdet.training import log_names
from leakdet.training.validation import (
    CheckMetrics,
    LossSums,
    SampleSummary,
    Selection,
    ValidationAccumulator,
    ValidationRates,
    class_numbers,
    lost_peer_explained,
    right_samples,
    sample_sums,
    selection_rank,
    sum_over_ranks,
)

GONE = "[../gloo/transport/tcp/pair.cc] Connection closed by peer [127.0.0.1]:1"


def trainer_of(world: int) -> pl.Trainer:
    strategy = Mock(root_device=torch.device("cpu"))
    strategy.reduce = lambda value, reduce_op: value * world
    return Mock(spec=pl.Trainer, world_size=world, global_rank=1, strategy=strategy)


@pytest.mark.parametrize("world", [1, 3])
def test_the_sum_is_over_all_ranks(world: int) -> None:
    value = torch.tensor([1.0, 2.0], dtype=torch.float64)
    assert sum_over_ranks(trainer_of(world), value).tolist() == [world, 2 * world]


def test_a_lost_peer_is_explained_with_the_way_to_continue(tmp_path: Path) -> None:
    checkpoint = tmp_path / "run" / "checkpoints" / "last.ckpt"
    with (
        pytest.raises(LeakdetError, match=r"process 1 of 2 lost another one.*stands above\.$"),
        lost_peer_explained(trainer_of(2), checkpoint),
    ):
        raise RuntimeError(GONE)
    checkpoint.parent.mkdir(parents=True)
    checkpoint.touch()
    with (
        pytest.raises(LeakdetError, match=rf"resume={tmp_path / 'run'}$"),
        lost_peer_explained(trainer_of(2), checkpoint),
    ):
        raise RuntimeError(GONE)


@pytest.mark.parametrize(("world", "text"), [(1, GONE), (2, "shapes do not match")])
def test_other_errors_pass(world: int, text: str, tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match=text.split("]")[0].replace("[", r"\[")),
        lost_peer_explained(trainer_of(world), tmp_path / "last.ckpt"),
    ):
        raise RuntimeError(text)


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


@pytest.mark.parametrize("classes", [None, 3])
def test_each_check_is_scored_by_itself(classes: int | None) -> None:
    metrics, rng = CheckMetrics(classes), np.random.default_rng(0)
    for size in (40, 25):
        true, predicted = rng.integers(0, classes or 2, (2, size))
        of_bools = (predicted > 0, true > 0) if classes is None else (predicted, true)
        f1, counts = metrics.of_check(*of_bools)
        assert counts.tolist() == confusion_matrix(true, predicted).tolist()
        average = "binary" if classes is None else "macro"
        assert f1 == pytest.approx(f1_score(true, predicted, average=average))
        metrics.f1.reset()  # as Lightning does after it has logged it


def test_a_row_of_the_history_has_each_cell_by_name() -> None:
    row = class_numbers(("a", "b"), 0.5, np.array([[3, 1], [0, 2]]))
    assert row[log_names.VAL_CLASS_F1] == 0.5
    assert row["val/class_confusion/a/b"] == 1.0
    assert len(row) == 5


def rates(recordings: int, windows: int = 10, seed: int = 0) -> ValidationRates:
    rng = np.random.default_rng(seed)
    is_leak = np.arange(recordings) % 5 < 2
    probs = rng.random((recordings, windows)) * 0.6 + 0.4 * is_leak[:, None]
    return ValidationRates(probs.mean(1), is_leak, probs.ravel(), np.repeat(is_leak, windows))


def curve_tpr(found: tuple[np.ndarray, np.ndarray], limit: float) -> float:
    scores, is_leak = found
    fpr, tpr, _ = roc_curve(is_leak, scores, drop_intermediate=False)
    return float(tpr[fpr <= limit].max())


def test_recordings_give_what_they_resolve_and_windows_the_rest() -> None:
    """90 negatives resolve an FPR of 0.1, their 900 windows 0.01, and nothing 0.001."""
    found = rates(150)
    logged = found.logged()
    assert logged["val/tpr_at_fpr_0.1"] == pytest.approx(curve_tpr(found._recordings, 0.1))
    assert logged["val/window_tpr_at_fpr_0.01"] == pytest.approx(curve_tpr(found._windows, 0.01))
    rates_there = {name for name in logged if "tpr_at_fpr" in name}
    assert rates_there == {"val/tpr_at_fpr_0.1", "val/window_tpr_at_fpr_0.01"}


def test_rates_of_recordings_are_those_of_metrics_json() -> None:
    found = rates(2000, windows=1)
    of_file = binary_metrics(*found._recordings, threshold=0.5)
    logged = found.logged()
    for name in (*log_names.VAL_TPR_AT_FPR[:3], *log_names.VAL_FPR_AT_TPR):
        assert logged[name] == of_file[name.removeprefix("val/")]


def test_the_smallest_resolvable_rate_is_that_of_recordings() -> None:
    found = rates(500)
    assert found.tpr_at_least_fpr == pytest.approx(curve_tpr(found._recordings, 0.01))
    assert rates(10).tpr_at_least_fpr is None


def test_where_windows_resolve_nothing_either_no_false_alarm_is_allowed() -> None:
    found = rates(10, windows=3)
    scores, is_leak = found._windows
    expected = (scores[is_leak] > scores[~is_leak].max()).mean()
    assert found.tpr_at_fpr(0.0001) == pytest.approx(expected)


def test_without_a_class_a_rate_is_undefined() -> None:
    leaks = np.ones(4, bool)
    found = ValidationRates(np.linspace(0, 1, 4), leaks, np.linspace(0, 1, 4), leaks)
    assert found.logged() == {}
    assert found.fpr_at_tpr(0.5) is None


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


SCORES = st.floats(0.0, 1.0)
LOSSES = st.floats(0.0, 100.0)


@given(SCORES, SCORES, LOSSES, LOSSES)
def test_a_higher_f1_wins_whatever_the_losses(
    f1: float, other: float, loss: float, other_loss: float
) -> None:
    if f1 > other + 0.001:
        assert selection_rank(f1, loss) > selection_rank(other, other_loss)


@given(SCORES, st.floats(0.0, 3.0))
def test_of_equal_f1_the_lower_loss_wins_in_single_precision_too(f1: float, loss: float) -> None:
    better, worse = (np.float32(selection_rank(f1, value)) for value in (loss, loss + 0.01))
    assert better > worse


@pytest.mark.parametrize(
    ("select", "words", "better", "worse"),
    [
        ("f1", "F1", 0.9, 0.8),
        ("auroc", "AUROC", 0.9, 0.8),
        ("tpr_at_fpr", "TPR at FPR 0.02", 0.9, 0.8),
        ("fpr_at_tpr", "FPR at TPR 0.9", 0.1, 0.2),
    ],
)
def test_each_metric_ranks_in_its_own_direction_and_the_loss_breaks_ties(
    select: str, words: str, better: float, worse: float
) -> None:
    decision = DecisionConfig(max_fpr=0.02, min_tpr=0.9)
    by = Selection.of(TrainConfig(select=select, decision=decision))
    assert by.words == words
    assert by.rank(better, 2.0) > by.rank(worse, 0.1)
    assert by.rank(better, 0.1) > by.rank(better, 0.2)
    assert by.rank(None, 0.0) < by.rank(1.0 if select == "fpr_at_tpr" else 0.0, 100.0)


def test_by_loss_the_lowest_is_best_whatever_the_scores() -> None:
    by = Selection.of(TrainConfig(select="loss"))
    assert by.rank(0.7, 0.7) > by.rank(0.8, 0.8)


FROZEN = ("optimizer.lr=0", "optimizer.min_lr=0", "trainer.max_epochs=1", "augment.eq_db=0")


def test_no_metric_depends_on_the_batches_and_all_are_those_of_scikit_learn(
    fitted: Callable[..., Any], tmp_path: Path
) -> None:
    """With a learning rate of 0 the network stays as it was drawn."""
    logged = []
    for batch in (1000, 13):
        module = fitted(tmp_path / str(batch), *FROZEN, f"data.batch_size={batch}").lightning_module
        check, values = module.latest, module.history[-1]
        called = module.rule.decide(check.scores)
        assert values[log_names.VAL_AUROC] == pytest.approx(
            roc_auc_score(check.is_leak, check.scores), abs=1e-6
        )
        assert values[log_names.VAL_F1] == pytest.approx(f1_score(check.is_leak, called), abs=1e-6)
        assert check.confusion == tuple(confusion_matrix(check.is_leak, called).ravel())
        assert values[log_names.VAL_PROB_MEDIAN] == np.median(check.window_prob)
        ends = [values[name] for name in log_names.VAL_PROB_RANGE]
        assert ends == [check.window_prob.min(), check.window_prob.max()]
        assert 0 < ends[0] < values[log_names.VAL_PROB_MEDIAN] < ends[1] < 1
        assert len(check.window_prob) == check.windows_per_recording.sum()
        logged.append({name: value for name, value in values.items() if name.startswith("val/")})
    assert logged[1] == pytest.approx(logged[0], rel=1e-6, abs=1e-6)
