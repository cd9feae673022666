"""Rates of a check are those of the ROC curve; of windows where recordings are too few."""

import numpy as np
import pytest
from sklearn.metrics import roc_curve

from leakdet.evaluation.metrics import binary_metrics
from leakdet.training import log_names
from leakdet.training.validation_rates import ValidationRates


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
