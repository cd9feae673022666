"""Where a detector errs: counts and rates per sensor, site, pipe …, and the group that stands out as the worst."""

import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

import numpy as np
from jaxtyping import Bool, Shaped

MAX_GROUPS = 50
FEW_RECORDINGS = 5  # a group of fewer is not named the worst while a larger one errs too


def wilson(hits: int, n: int, level: float = 0.95) -> list[float] | None:
    """Interval of a share, `hits` of `n` [Wilson 1927]; None where n is 0.

    Never empty at 0 of n or n of n, where a bootstrap gives [0, 0] or [1, 1].

    >>> [round(end, 3) for end in wilson(0, 10)]
    [0.0, 0.278]
    """
    if n == 0:
        return None
    z = NormalDist().inv_cdf(0.5 + level / 2.0)
    share, spread = hits / n, z * z / n
    centre = (share + spread / 2.0) / (1.0 + spread)
    half = z * math.sqrt(share * (1.0 - share) / n + spread / (4.0 * n)) / (1.0 + spread)
    low = 0.0 if hits == 0 else max(0.0, centre - half)
    return [low, 1.0 if hits == n else min(1.0, centre + half)]


def pairs_in_order(area: float, positives: int, negatives: int) -> tuple[int, int]:
    """An AUROC of 0 or 1 as the share that `wilson` takes: so many pairs are in order, of so many that are independent.

    As many pairs of a leak and another recording have no recording in common as the smaller class has.

    >>> pairs_in_order(1.0, 3, 40)
    (3, 3)
    """
    pairs = min(positives, negatives)
    return round(area * pairs), pairs


def f1_interval(tp: int, errors: int, level: float = 0.95) -> list[float] | None:
    """Interval of F1 from `tp` and `errors` = FP + FN: F1 = 2 J / (1 + J) rises with J = TP / (TP + FP + FN), a share."""
    share = wilson(tp, tp + errors, level)
    return None if share is None else [2.0 * end / (1.0 + end) for end in share]


def group_tables(
    groups: Mapping[str, Shaped[np.ndarray, " R"]],
    is_leak: Bool[np.ndarray, " R"],
    decision: Bool[np.ndarray, " R"],
) -> dict[str, Any]:
    """`{"columns": {column: [row per value, worst first]}, "left_out": {column: reason}, "worst": ... or None}`.

    A row has counts, `error_rate`, `f1`, `fpr`, `recall` (None where undefined) and their Wilson `intervals`. Worst is
    the group whose error rate is high for sure: the one with the highest lower bound.
    """
    columns: dict[str, list[dict[str, Any]]] = {}
    left_out: dict[str, str] = {}
    for column, values in groups.items():
        names, group_of_row = np.unique(values.astype(str), return_inverse=True)
        reason = _why_no_groups(len(names), len(values))
        if reason is None:
            columns[column] = _rows(names, group_of_row, is_leak, decision)
        else:
            left_out[column] = reason
    return {"columns": columns, "left_out": left_out, "worst": _worst(columns)}


def _why_no_groups(names: int, recordings: int) -> str | None:
    if names < 2:
        return "it has one value only"
    if names == recordings:
        return "every recording has a value of its own"
    if names > MAX_GROUPS:
        return f"it has {names} values; at most {MAX_GROUPS} are compared"
    return None


def _rows(
    names: np.ndarray, group_of_row: np.ndarray, is_leak: np.ndarray, decision: np.ndarray
) -> list[dict[str, Any]]:
    def count(which: np.ndarray) -> list[int]:
        return [int(n) for n in np.bincount(group_of_row[which], minlength=len(names))]

    counts = zip(
        count(is_leak & decision),
        count(~is_leak & decision),
        count(is_leak & ~decision),
        count(~is_leak & ~decision),
        strict=True,
    )
    rows = [group_row(str(name), *four) for name, four in zip(names, counts, strict=True)]
    return sorted(rows, key=_badness, reverse=True)


def group_row(value: str, tp: int, fp: int, fn: int, tn: int) -> dict[str, Any]:
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
    compared = sum(len(rows) for rows in columns.values())
    return {
        "column": column,
        "value": row["value"],
        "errors": row["errors"],
        "n": row["n"],
        "error_rate": row["error_rate"],
        "interval": row["intervals"]["error_rate"],
        "others_errors": errors,
        "others_n": n,
        "stands_out": _exceeds(row["errors"], row["n"], errors, n, level=1.0 - 0.05 / compared),
    }


def _exceeds(hits: int, n: int, other_hits: int, other_n: int, level: float) -> bool:
    """Whether the first share is the larger beyond chance: Newcombe's interval of the difference lies above 0."""
    first, second = wilson(hits, n, level), wilson(other_hits, other_n, level)
    if first is None or second is None:
        return False
    a, b = hits / n, other_hits / other_n
    return a - b > math.hypot(a - first[0], second[1] - b)


def worst_sentence(groups: Mapping[str, Any]) -> str | None:
    """The worst group of `group_tables` by name, and whether that is more than chance; None where there are no groups."""
    worst = groups["worst"]
    if worst is None:
        return "No group had a mistake." if groups["columns"] else None
    ending = (
        "That is more than chance: look there first."
        if worst["stands_out"]
        else "That may be chance: no group stands out for sure."
    )
    return (
        f"Most mistakes: {worst['column']} {worst['value'] or '(not given)'}, {worst['errors']} of {worst['n']} wrong "
        f"({worst['error_rate']:.0%}), {worst['others_errors']} of {worst['others_n']} elsewhere. {ending}"
    )
