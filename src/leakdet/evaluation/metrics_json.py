"""The numbers of metrics.json: every metric of a split with its interval, its groups and its curves (docs/metrics.md)."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import leakdet
from leakdet.detection.decision import DecisionRule
from leakdet.evaluation.curves import curves
from leakdet.evaluation.groups import f1_interval, group_tables, pairs_in_order, wilson
from leakdet.evaluation.intervals import bootstrap_intervals
from leakdet.evaluation.metrics import COUNTS, binary_metrics
from leakdet.evaluation.scored_recordings import ScoredRecordings
from leakdet.evaluation.split_scores import SplitScores, scored_recordings

METRICS_VERSION = 1
MOST_DRAWS, FEWEST_REPLICATES = (
    400_000_000,
    200,
)  # windows may be millions: fewer replicates then, in bounded time
OF_THRESHOLD = ("accuracy", "balanced_accuracy", "precision", "recall", "specificity", "fpr", "f1")


def evaluation(
    scores: SplitScores, rule: DecisionRule, replicates: int = 2000, group_by: Sequence[str] = ()
) -> dict[str, Any]:
    """`tables_of` a split that was scored with one rule."""
    return tables_of(scored_recordings(scores, rule), replicates, group_by)


def tables_of(
    scored: ScoredRecordings, replicates: int = 2000, group_by: Sequence[str] = ()
) -> dict[str, Any]:
    """`{"recording", "window", "groups", "curves"}` of a split, as in metrics.json.

    Intervals resample whole groups of the columns `group_by`, where the recordings have them and there are at least two;
    recordings otherwise. Windows of one recording are not independent: their intervals resample as the recordings' do.
    """
    units = scored.grouping(group_by)
    units = units if units is not None and len(np.unique(units)) > 1 else None
    windows = np.diff(scored.recording_offsets)
    unit_of_window = np.repeat(np.arange(len(scored)) if units is None else units, windows)
    recording = metric_table(scored.score, scored.is_leak, scored.threshold, units, replicates)
    window_replicates = max(
        FEWEST_REPLICATES, min(replicates, MOST_DRAWS // max(1, len(scored.window_prob)))
    )
    window = metric_table(
        scored.window_prob,
        np.repeat(scored.is_leak, windows),
        np.repeat(scored.threshold, windows),
        unit_of_window,
        window_replicates,
    )
    probability = scored.score if scored.probability is None else scored.probability
    unit = "recording" if units is None else "/".join(group_by)
    for table in (recording, window):
        table["intervals"]["unit"] = unit
    widen_degenerate(recording)
    return {
        "recording": recording,
        "window": window,
        "groups": group_tables(scored.groups, scored.is_leak, scored.decision),
        "curves": curves(scored.score, probability, scored.is_leak),
    }


def metric_table(
    scores: np.ndarray,
    is_leak: np.ndarray,
    threshold: np.ndarray,
    units: np.ndarray | None,
    replicates: int,
) -> dict[str, Any]:
    """`binary_metrics` with `bootstrap_intervals`. Where folds brought several thresholds, verdicts give what is of them."""

    def table(values: np.ndarray, at: float) -> dict[str, Any]:
        found = binary_metrics(values, is_leak, at)
        found["intervals"] = bootstrap_intervals(values, is_leak, at, units, replicates=replicates)
        return found

    distinct = np.unique(threshold)
    if len(distinct) < 2:
        return table(scores, float(distinct[0]) if len(distinct) else 0.5)
    ranked = table(scores, 0.5)
    decided = table((scores >= threshold).astype(np.float64), 0.5)
    for key in (*COUNTS, *OF_THRESHOLD):
        ranked[key] = decided[key]
        ranked["undefined"].pop(key, None)
        if key in OF_THRESHOLD:
            ranked["intervals"][key] = decided["intervals"][key]
        if key in decided["undefined"]:
            ranked["undefined"][key] = decided["undefined"][key]
    return ranked


def widen_degenerate(table: dict[str, Any]) -> None:
    """Replace bootstrap intervals without width: no replicate of "0 of 12" has a hit, yet the rate need not be 0.

    Shares get Wilson's interval, an AUROC of 1 or 0 that of its independent pairs.
    """
    intervals = table["intervals"]
    right = table["tp"] + table["tn"]
    shares = {
        "recall": (table["tp"], table["positives"]),
        "specificity": (table["tn"], table["negatives"]),
        "fpr": (table["fp"], table["negatives"]),
        "precision": (table["tp"], table["predicted_positives"]),
        "accuracy": (right, table["n"]),
        "auroc": pairs_in_order(table["auroc"] or 0.0, table["positives"], table["negatives"]),
    }
    widened = []
    for key, (hits, n) in shares.items():
        found = intervals.get(key)
        if found is not None and found[0] == found[1] and found[0] in (0.0, 1.0):
            intervals[key] = wilson(hits, n)
            widened.append(key)
    f1 = intervals.get("f1")
    if f1 is not None and f1[0] == f1[1]:
        intervals["f1"] = f1_interval(table["tp"], table["fp"] + table["fn"])
        widened.append("f1")
    if widened:
        note = f"{', '.join(widened)}: all recordings alike, so the interval is Wilson's"
        intervals["note"] = "; ".join(part for part in (intervals["note"], note) if part)


def metrics_content(
    tables: Mapping[str, Any], rule: DecisionRule | None, group_by: Sequence[str], **more: Any
) -> dict[str, Any]:
    """The content of metrics.json: one entry per split, how verdicts are reached, and `more` of the run."""
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
    """The metrics that travel with a model: those of recordings and windows, without groups and curves."""
    return {
        name: {unit: table[unit] for unit in ("recording", "window")}
        for name, table in tables.items()
    }


def write_metrics(path: Path, content: Mapping[str, Any]) -> None:
    """Strict JSON: what is undefined is null, never NaN."""
    path.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")
