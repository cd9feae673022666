"""Errors by group (sensor, site, pipe …), and the group that stands out as the worst."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Int, Shaped

from leakdet.evaluation.intervals import LEVEL, f1_interval, wilson

MAX_GROUPS = 50
# A group of fewer recordings is not called the worst while a larger one has errors too.
FEW_RECORDINGS = 5


def group_tables(
    groups: Mapping[str, Shaped[np.ndarray, " R"]],
    is_leak: Bool[np.ndarray, " R"],
    decision: Bool[np.ndarray, " R"],
) -> dict[str, Any]:
    """`{"columns": {column: rows}, "left_out": {column: reason}, "worst": row or None}`.

    Rows stand worst first. A row has counts, `error_rate`, `f1`, `fpr`, `recall` (None where
    undefined) and their Wilson `intervals`. The worst group is the one whose error rate has the
    highest lower bound.
    """
    columns: dict[str, list[dict[str, Any]]] = {}
    left_out: dict[str, str] = {}
    for column, values in groups.items():
        names, group_of_row = np.unique(values.astype(str), return_inverse=True)
        reason = _reason_to_skip(len(names), len(values))
        if reason is None:
            columns[column] = _rows(names, group_of_row, is_leak, decision)
        else:
            left_out[column] = reason
    return {"columns": columns, "left_out": left_out, "worst": _worst(columns)}


def _reason_to_skip(names: int, recordings: int) -> str | None:
    if names < 2:
        return "it has one value only"
    if names == recordings:
        return "every recording has a value of its own"
    if names > MAX_GROUPS:
        return f"it has {names} values; at most {MAX_GROUPS} are compared"
    return None


def _rows(
    names: Shaped[np.ndarray, " G"],
    group_of_row: Int[np.ndarray, " R"],
    is_leak: Bool[np.ndarray, " R"],
    decision: Bool[np.ndarray, " R"],
) -> list[dict[str, Any]]:
    cells = (is_leak & decision, ~is_leak & decision, is_leak & ~decision, ~is_leak & ~decision)
    counts = [np.bincount(group_of_row[cell], minlength=len(names)).tolist() for cell in cells]
    rows = [_row(str(name), *of_name) for name, *of_name in zip(names, *counts, strict=True)]
    return sorted(rows, key=_badness, reverse=True)


def _row(value: str, tp: int, fp: int, fn: int, tn: int) -> dict[str, Any]:
    """Counts, rates and intervals of one group."""
    n, errors = tp + fp + fn + tn, fp + fn
    positives, negatives = tp + fn, fp + tn
    return {
        "value": value,
        "n": n,
        "positives": positives,
        "negatives": negatives,
        "tp": tp,
        "fp": fp,
        "fn": fn,
        "tn": tn,
        "errors": errors,
        "error_rate": errors / n,
        "f1": 2.0 * tp / (2 * tp + errors) if positives else None,
        "fpr": fp / negatives if negatives else None,
        "recall": tp / positives if positives else None,
        "intervals": {
            "error_rate": wilson(errors, n),
            "f1": f1_interval(tp, errors) if positives else None,
            "fpr": wilson(fp, negatives),
            "recall": wilson(tp, positives),
        },
    }


def _badness(row: Mapping[str, Any]) -> tuple[float, int, int]:
    return row["intervals"]["error_rate"][0], row["errors"], row["n"]


def _worst(columns: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any] | None:
    erring = [(column, row) for column, rows in columns.items() for row in rows if row["errors"]]
    if not erring:
        return None
    large = [pair for pair in erring if pair[1]["n"] >= FEW_RECORDINGS]
    column, row = max(large or erring, key=lambda pair: _badness(pair[1]))
    others = [other for other in columns[column] if other is not row]
    errors, n = sum(other["errors"] for other in others), sum(other["n"] for other in others)
    # Bonferroni: every group of every column was a candidate.
    level = 1.0 - (1.0 - LEVEL) / sum(len(rows) for rows in columns.values())
    return {
        "column": column,
        "value": row["value"],
        "errors": row["errors"],
        "n": row["n"],
        "error_rate": row["error_rate"],
        "interval": row["intervals"]["error_rate"],
        "others_errors": errors,
        "others_n": n,
        "stands_out": _exceeds(row["errors"], row["n"], errors, n, level),
    }


def _exceeds(hits: int, n: int, other_hits: int, other_n: int, level: float) -> bool:
    """True if the first share is larger: Newcombe's interval of the difference lies above 0."""
    first, second = wilson(hits, n, level), wilson(other_hits, other_n, level)
    if first is None or second is None:
        return False
    a, b = hits / n, other_hits / other_n
    return a - b > math.hypot(a - first[0], second[1] - b)


def worst_sentence(groups: Mapping[str, Any]) -> str | None:
    """The worst group, and whether that may be chance; None where there are no groups."""
    worst = groups["worst"]
    if worst is None:
        return "No group had an error." if groups["columns"] else None
    conclusion = (
        "That is more than chance: look there first."
        if worst["stands_out"]
        else "That may be chance: no group is clearly worse."
    )
    return (
        f"Most errors: {worst['column']} {worst['value'] or '(not given)'}, "
        f"{worst['errors']} of {worst['n']} wrong ({worst['error_rate']:.0%}), "
        f"{worst['others_errors']} of {worst['others_n']} elsewhere. {conclusion}"
    )
