"""What a validation check finds, whatever the batches."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, f1_score, roc_auc_score

from leakdet.training import log_names

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
