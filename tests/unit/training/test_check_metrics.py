"""F1 and confusion matrix of a check are scikit-learn's, and the next check starts anew."""

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, f1_score

from leakdet.training import log_names
from leakdet.training.check_metrics import CheckMetrics, class_numbers


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
