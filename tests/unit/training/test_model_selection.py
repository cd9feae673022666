import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from leakdet.training.model_selection import selection_rank

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
