"""Errors by group (sensor, site, pipe …), and the group that stands out as the worst."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from leakdet.evaluation.intervals import LEVEL, auroc_with_interval, f1_interval, wilson

MAX_GROUPS = 50
# The bootstrap of the AUROC takes at most so many draws in a column, and at least 200 replicates.
MAX_DRAWS = 20_000_000
# A group of fewer recordings is not called the worst while a larger one has errors too.
FEW_RECORDINGS = 5
MAX_SENSORS = 8  # that are named on screen


def group_tables(
    groups: Mapping[str, Shaped[np.ndarray, " R"]],
    is_leak: Bool[np.ndarray, " R"],
    decision: Bool[np.ndarray, " R"],
    score: Float[np.ndarray, " R"],
    decided: Bool[np.ndarray, " R"] | None = None,
) -> dict[str, Any]:
    """`{"columns": {column: rows}, "left_out": {column: reason}, "worst": row or None}`.

    Rows stand worst first. A row has counts, `error_rate`, `f1`, `fpr`, `recall`, `auroc`,
    `wrong_of_decided` (None where undefined) and their `intervals`, Wilson's but for the bootstrap
    of the AUROC. The worst group is the one whose error rate has the highest lower bound. `decided`
    is what predict decides; None: all.
    """
    decided = np.ones(len(is_leak), bool) if decided is None else decided
    right = decision == is_leak
    replicates = max(200, min(1000, MAX_DRAWS // max(1, len(is_leak))))
    columns: dict[str, list[dict[str, Any]]] = {}
    left_out: dict[str, str] = {}
    for column, values in groups.items():
        texts = values.astype(str)
        names, group_of_row = np.unique(texts, return_inverse=True)
        reason = _reason_to_skip(len(names), len(values))
        if reason is None:
            columns[column] = []
            for row in _rows(names, group_of_row, is_leak, decision):
                inside = texts == row["value"]
                row = _with_auroc(row, score[inside], is_leak[inside], replicates)
                columns[column].append(_with_coverage(row, right[inside & decided]))
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


def _with_auroc(
    row: dict[str, Any],
    score: Float[np.ndarray, " n"],
    is_leak: Bool[np.ndarray, " n"],
    replicates: int,
) -> dict[str, Any]:
    """The row of a group with the AUROC of its recordings among themselves."""
    found = auroc_with_interval(score, is_leak, None, replicates)
    intervals = row["intervals"] | {"auroc": found["interval"]}
    return row | {"auroc": found["auroc"], "intervals": intervals}


def _with_coverage(row: dict[str, Any], right: Bool[np.ndarray, " n"]) -> dict[str, Any]:
    """The row of a group with the decided ones of its recordings, `right` or wrong."""
    wrong, decided = int((~right).sum()), len(right)
    return row | {
        "decided": decided,
        "decided_errors": wrong,
        "wrong_of_decided": wrong / decided if decided else None,
        "intervals": row["intervals"] | {"wrong_of_decided": wilson(wrong, decided)},
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


def sensor_rows(groups: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of the columns that name a sensor, each with its `column`; [] where there are none.

    >>> sensor_rows({"columns": {"sensor_id": [{"value": "a7"}], "site": [{"value": "Mill Lane"}]}})
    [{'column': 'sensor_id', 'value': 'a7'}]
    """
    return [
        {"column": column, **row}
        for column, rows in groups["columns"].items()
        if "sensor" in column.casefold()
        for row in rows
    ]


def sensor_sentences(groups: Mapping[str, Any]) -> Iterator[str]:
    """A sentence on each of several sensors, worst first; of more than eight on the worst ones."""
    rows = sensor_rows(groups)
    for row in rows[:MAX_SENSORS]:
        interval = row["intervals"]["auroc"]
        ends = f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval else ""
        yield (
            f"{row['column']} {row['value'] or '(not given)'}: "
            f"AUROC {'n/a' if row['auroc'] is None else format(row['auroc'], '.2f')}{ends}, "
            f"{row['tp']} of {row['positives']} leaks found, "
            f"{row['fp']} false alarm{'' if row['fp'] == 1 else 's'} on {row['negatives']} others"
        )
    if len(rows) > MAX_SENSORS:
        yield f"{len(rows) - MAX_SENSORS} more sensors with lower error rates: see the report"


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
