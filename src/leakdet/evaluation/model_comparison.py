"""Two models on the same recordings: paired differences, McNemar's test, and a conclusion."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool
from scipy.stats import binomtest

from leakdet.errors import InputError
from leakdet.evaluation.intervals import paired_difference
from leakdet.evaluation.scored_recordings import ScoredRecordings

COMPARED = ("accuracy", "f1", "recall", "fpr", "precision", "auroc", "average_precision")
ALPHA = 0.05


def compare(
    a: ScoredRecordings,
    b: ScoredRecordings,
    names: tuple[str, str],
    group_by: Sequence[str] = (),
    replicates: int = 2000,
) -> dict[str, Any]:
    """The `comparison` of metrics.json: paired differences, b minus a, McNemar's test, a sentence.

    Whole groups of `group_by` are resampled where the recordings have them. Raises `InputError`
    where the two were not scored on the same recordings with one threshold each.
    """
    same = np.array_equal(a.recording_id, b.recording_id) and np.array_equal(a.is_leak, b.is_leak)
    if a.one_threshold is None or b.one_threshold is None or not same:
        raise InputError(
            "Only models with one threshold each, scored on the same recordings, can be compared."
        )
    units = a.resampling_units(group_by)
    differences = [
        paired_difference(
            a.score,
            b.score,
            a.is_leak,
            metric,
            threshold_a=a.one_threshold,
            threshold_b=b.one_threshold,
            groups=units,
            replicates=replicates,
        )
        for metric in COMPARED
    ]
    test = mcnemar(~a.wrong, ~b.wrong)
    return {
        "a": names[0],
        "b": names[1],
        "split": a.name,
        "n": len(a),
        "unit": "recording" if units is None else "/".join(group_by),
        "differences": differences,
        "mcnemar": test,
        "sentence": _sentence(len(a), differences[0], test),
    }


def mcnemar(
    correct_a: Bool[np.ndarray, " N"], correct_b: Bool[np.ndarray, " N"]
) -> dict[str, int | float]:
    """McNemar's exact test of whether two models err equally often on the same recordings.

    Returns {"only_a", "only_b", "p_value"}: the recordings that only one model gets right, and the
    two-sided binomial p-value of such an uneven split. Recordings of one site are not independent:
    the p-value is too small there, and `paired_difference` by group is the better guide.
    """
    only_a = int(np.count_nonzero(correct_a & ~correct_b))
    only_b = int(np.count_nonzero(correct_b & ~correct_a))
    p_value = float(binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0
    return {"only_a": only_a, "only_b": only_b, "p_value": p_value}


def _sentence(n: int, accuracy: Mapping[str, Any], test: Mapping[str, int | float]) -> str:
    """Conclude: a difference needs McNemar's p below 0.05 and an interval that excludes 0."""
    interval = accuracy["interval"]
    sure = test["p_value"] < ALPHA and interval is not None and (interval[0] > 0 or interval[1] < 0)
    better = "B is better" if test["only_b"] > test["only_a"] else "A is better"
    conclusion = better if sure else "No measurable difference"
    return (
        f"{conclusion}: of {n} recordings, only A is right on {test['only_a']} and only B on "
        f"{test['only_b']} (McNemar p = {test['p_value']:.2g})."
    )
