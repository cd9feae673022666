"""The content of metrics.json, and the curves in it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Shaped

import leakdet
from leakdet.detection.decision import DecisionRule
from leakdet.detection.thresholds import rank
from leakdet.evaluation.class_tables import class_table
from leakdet.evaluation.coverage import coverage_table, risk_coverage
from leakdet.evaluation.groups import group_tables, sensor_rows
from leakdet.evaluation.intervals import (
    REPLICATES,
    bootstrap_intervals,
    f1_interval,
    perfect_auroc_interval,
    wilson,
)
from leakdet.evaluation.metrics import COUNTS, RATES, binary_metrics
from leakdet.evaluation.scored_recordings import ScoredRecordings

MAX_POINTS = 300
SCORE_BINS = 20
RELIABILITY_BINS = 10


def curves(
    scores: Float[np.ndarray, " R"],
    probability: Float[np.ndarray, " R"],
    is_leak: Bool[np.ndarray, " R"],
    threshold: Float[np.ndarray, " R"],
) -> dict[str, Any]:
    """The curves of one split, as in metrics.json; ROC and precision-recall need both classes.

    - `roc`: [[fpr, tpr], …] from [0, 0] to [1, 1]; `precision_recall`: [[recall, precision], …] by
      rising recall. Curves of more than 300 corners are thinned.
    - `histogram`: `edges` of 20 equal bins of the score, counts `leak` and `no_leak`.
    - `reliability`: per non-empty tenth of `probability`: `n`, `mean_prob`, `leak_share` and its
      `interval`.
    - `risk_coverage`: [[share decided, wrong of the decided], …], as `coverage.risk_coverage`.
    """
    roc = precision_recall = None
    if is_leak.any() and not is_leak.all():
        cuts = rank(scores, is_leak).cuts()
        tp, fp = cuts.tp[0], cuts.fp[0]
        roc = _thinned_list(fp / fp[-1], tp / tp[-1])
        precision_recall = _thinned_list(tp[1:] / tp[-1], tp[1:] / (tp[1:] + fp[1:]))
    risks = risk_coverage(scores, threshold, is_leak)
    return {
        "roc": roc,
        "precision_recall": precision_recall,
        "histogram": _histogram(scores, is_leak),
        "reliability": _reliability(probability, is_leak),
        "risk_coverage": None if risks is None else _thinned_list(*risks),
    }


def thinned(
    points: Float[np.ndarray, "N 2"], max_points: int = MAX_POINTS
) -> Float[np.ndarray, "K 2"]:
    """Drop points inside straight runs, then all but those at even steps along the line."""
    if len(points) > 2:
        before, after = points[1:-1] - points[:-2], points[2:] - points[1:-1]
        bends = np.abs(before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]) > 1e-15
        points = points[np.concatenate([[True], bends, [True]])]
    if len(points) <= max_points:
        return points
    length = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(points, axis=0)).sum(axis=1))])
    kept = np.searchsorted(length, np.linspace(0.0, length[-1], max_points))
    return np.asarray(points[np.unique(np.append(kept, [0, len(points) - 1]))])


def _thinned_list(x: Float[np.ndarray, " N"], y: Float[np.ndarray, " N"]) -> list[list[float]]:
    points: list[list[float]] = thinned(np.stack([x, y], axis=1)).round(6).tolist()
    return points


def _histogram(
    scores: Float[np.ndarray, " R"], is_leak: Bool[np.ndarray, " R"]
) -> dict[str, list[float] | list[int]]:
    edges = np.linspace(0.0, 1.0, SCORE_BINS + 1)
    return {
        "edges": edges.round(6).tolist(),
        "leak": np.histogram(scores[is_leak], edges)[0].tolist(),
        "no_leak": np.histogram(scores[~is_leak], edges)[0].tolist(),
    }


def _reliability(
    probability: Float[np.ndarray, " R"], is_leak: Bool[np.ndarray, " R"]
) -> list[dict[str, Any]]:
    bins = np.minimum((probability * RELIABILITY_BINS).astype(np.int64), RELIABILITY_BINS - 1)
    rows = []
    for index in np.unique(bins):
        inside = bins == index
        n, leaks = int(inside.sum()), int(is_leak[inside].sum())
        rows.append(
            {
                "low": index / RELIABILITY_BINS,
                "high": (index + 1) / RELIABILITY_BINS,
                "n": n,
                "mean_prob": float(probability[inside].mean()),
                "leak_share": leaks / n,
                "interval": wilson(leaks, n),
            }
        )
    return rows


METRICS_VERSION = 1
# Windows may be millions: a bootstrap of them takes fewer replicates, to bound the time.
MAX_DRAWS, MIN_REPLICATES = 400_000_000, 200
OF_THRESHOLD = ("accuracy", "balanced_accuracy", "precision", "recall", "specificity", "fpr", "f1")


def split_metrics(
    scored: ScoredRecordings, replicates: int = REPLICATES, group_by: Sequence[str] = ()
) -> dict[str, Any]:
    """`{"recording", "coverage", "window", "groups", "curves"}` of a split, as in metrics.json.

    Of a multiclass model `classes` too.

    Intervals resample whole groups of the columns `group_by`, where the recordings have them and
    there are at least two; recordings otherwise. Windows of one recording are not independent:
    their intervals resample as the recordings' do.
    """
    units = scored.resampling_units(group_by)
    windows = np.diff(scored.recording_offsets)
    recording = recording_table(scored, units, replicates)
    window = metric_table(
        scored.window_prob,
        np.repeat(scored.is_leak, windows),
        np.repeat(scored.threshold, windows),
        np.repeat(np.arange(len(scored)) if units is None else units, windows),
        max(MIN_REPLICATES, min(replicates, MAX_DRAWS // max(1, len(scored.window_prob)))),
    )
    coverage = coverage_table(scored.is_leak, scored.decision, scored.reason, units, replicates)
    for table in (recording, window, coverage):
        table["intervals"]["unit"] = "recording" if units is None else "/".join(group_by)
    probability = scored.score if scored.probability is None else scored.probability
    tables = {
        "recording": recording,
        "coverage": coverage,
        "window": window,
        "groups": group_tables(
            scored.groups, scored.is_leak, scored.decision, scored.score, scored.decided
        ),
        "curves": curves(scored.score, probability, scored.is_leak, scored.threshold),
    }
    if scored.classes is not None:
        tables["classes"] = class_table(scored.classes, scored.label, units, replicates)
        tables["classes"]["intervals"]["unit"] = recording["intervals"]["unit"]
    return tables


def recording_table(
    scored: ScoredRecordings, units: Shaped[np.ndarray, " R"] | None, replicates: int
) -> dict[str, Any]:
    """`metric_table` of the recordings, with intervals that have a width."""
    table = metric_table(scored.score, scored.is_leak, scored.threshold, units, replicates)
    widen_degenerate(table)
    return table


def metric_table(
    scores: Float[np.ndarray, " N"],
    is_leak: Bool[np.ndarray, " N"],
    threshold: Float[np.ndarray, " N"],
    units: Shaped[np.ndarray, " N"] | None,
    replicates: int,
) -> dict[str, Any]:
    """`binary_metrics` with `bootstrap_intervals` that draw whole `units`.

    Where folds have different thresholds, ranking metrics are those of the scores, and counts and
    rates at the threshold those of the decisions.
    """
    distinct = np.unique(threshold)
    if len(distinct) < 2:
        at = float(distinct[0]) if len(distinct) else 0.5
        return _table(scores, is_leak, at, units, replicates)
    decisions = (scores >= threshold).astype(np.float64)
    decided = _table(decisions, is_leak, 0.5, units, replicates, OF_THRESHOLD)
    table = _table(
        scores, is_leak, 0.5, units, replicates, [key for key in RATES if key not in OF_THRESHOLD]
    )
    table |= {key: decided[key] for key in (*COUNTS, *OF_THRESHOLD)}
    for entry in ("undefined", "intervals"):
        ranking = {key: value for key, value in table[entry].items() if key not in OF_THRESHOLD}
        table[entry] = ranking | {
            key: value for key, value in decided[entry].items() if key in OF_THRESHOLD
        }
    notes = [table["intervals"]["note"], decided["intervals"]["note"]]
    table["intervals"]["note"] = _joined("; ".join(filter(None, notes)).split("; "))
    return table


def _table(
    scores: Float[np.ndarray, " N"],
    is_leak: Bool[np.ndarray, " N"],
    threshold: float,
    units: Shaped[np.ndarray, " N"] | None,
    replicates: int,
    only: Collection[str] = (),
) -> dict[str, Any]:
    intervals = bootstrap_intervals(
        scores, is_leak, threshold, units, replicates=replicates, only=only
    )
    return binary_metrics(scores, is_leak, threshold) | {"intervals": intervals}


def widen_degenerate(table: dict[str, Any]) -> None:
    """Replace bootstrap intervals of no width: with 0 hits of 12, the rate need not be 0.

    All recordings are alike, or all of the few groups.
    """
    intervals, positives, negatives = table["intervals"], table["positives"], table["negatives"]
    tp, fp, tn = table["tp"], table["fp"], table["tn"]
    replacements = {
        "recall": wilson(tp, positives),
        "specificity": wilson(tn, negatives),
        "fpr": wilson(fp, negatives),
        "precision": wilson(tp, tp + fp),
        "accuracy": wilson(tp + tn, table["n"]),
        "auroc": perfect_auroc_interval(table["auroc"] or 0.0, positives, negatives),
        "f1": f1_interval(tp, fp + table["fn"]),
    }
    widened = []
    for key, replacement in replacements.items():
        interval = intervals.get(key)
        if interval and interval[0] == interval[1] and replacement:
            intervals[key] = replacement
            widened.append(key)
    if widened:
        note = f"{', '.join(widened)}: all replicates alike, so the interval is Wilson's"
        intervals["note"] = _joined([intervals["note"], note])


def _joined(notes: Iterable[str | None]) -> str | None:
    """Distinct notes in one line; None where there are none."""
    return "; ".join(dict.fromkeys(filter(None, notes))) or None


def metrics_content(
    tables: Mapping[str, Any], rule: DecisionRule | None, group_by: Sequence[str], **more: Any
) -> dict[str, Any]:
    """The content of metrics.json: an entry per split, the decision rule, and `more` of the run."""
    return {
        "metrics_version": METRICS_VERSION,
        "created_by": f"leakdet {leakdet.__version__}",
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        **tables,
        "splits": list(tables),
        "decision_rule": None if rule is None else rule.to_json(),
        "group_by": list(group_by),
        **more,
    }


def for_model_file(tables: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics that travel with a model: of recordings, of windows, and of several sensors."""
    return {
        name: {
            "recording": table["recording"],
            "window": table["window"],
            "sensors": sensor_rows(table["groups"]),
        }
        for name, table in tables.items()
    }
