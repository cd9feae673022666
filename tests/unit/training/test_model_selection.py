import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakdet.config import DecisionConfig, TrainConfig
from leakdet.training.model_selection import Selection, selection_rank

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
