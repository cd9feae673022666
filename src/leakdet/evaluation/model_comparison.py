"""Two models on the same recordings: paired differences with intervals, McNemar, and what follows in a sentence."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from leakdet.errors import InputError
from leakdet.evaluation.intervals import mcnemar, paired_difference
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
    """`{"a", "b", "split", "n", "differences": [...], "mcnemar": {...}, "sentence"}`; differences are b minus a.

    Whole groups of `group_by` are resampled where the recordings have them. Raises `InputError` where the two were not
    scored on the same recordings with one threshold each.
    """
    if a.one_threshold is None or b.one_threshold is None or not _same(a, b):
        raise InputError(
            "Only models with one threshold each, scored on the same recordings, can be compared."
        )
    units = a.grouping(group_by)
    units = units if units is not None and len(np.unique(units)) > 1 else None
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


def _same(a: ScoredRecordings, b: ScoredRecordings) -> bool:
    return np.array_equal(a.recording_id, b.recording_id) and np.array_equal(a.is_leak, b.is_leak)


def _sentence(n: int, accuracy: Mapping[str, Any], test: Mapping[str, int | float]) -> str:
    """Beyond chance means both: McNemar's p below 0.05, and an interval of the accuracy's difference without 0."""
    interval = accuracy["interval"]
    sure = test["p_value"] < ALPHA and interval is not None and (interval[0] > 0 or interval[1] < 0)
    better = "B is better" if test["only_b"] > test["only_a"] else "A is better"
    conclusion = f"{better}, beyond chance" if sure else "No difference beyond chance"
    return (
        f"{conclusion}: of {n} recordings, {test['only_a']} are right with A only and {test['only_b']} with B only "
        f"(McNemar p = {test['p_value']:.2g})."
    )
