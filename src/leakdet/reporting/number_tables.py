"""The numbers of a report in the order in which a reader needs them, each with what it means."""

from collections.abc import Mapping, Sequence
from typing import Any

from leakdet.reporting.wording import counted, number, number_range, percent, percent_range

MEANINGS = {
    "f1": "F1 of leak: one number for leaks found and digs not wasted",
    "recall": "recall, TPR: share of leaks that are found",
    "precision": "precision: share of alarms that are leaks, at this share of leaks",
    "fpr": "FPR: share of places without a leak that raise an alarm",
    "specificity": "specificity: share of places without a leak that raise none",
    "accuracy": "accuracy: share of right verdicts",
    "balanced_accuracy": "balanced accuracy: mean of recall and specificity",
    "auroc": "AUROC: chance that a leak scores above a place without one; 0.5 is guessing",
    "average_precision": "average precision: area under precision over recall",
    "tpr_at_fpr_0.1": "leaks found when 1 in 10 quiet places may alarm",
    "tpr_at_fpr_0.01": "leaks found when 1 in 100 quiet places may alarm",
    "tpr_at_fpr_0.001": "leaks found when 1 in 1,000 quiet places may alarm",
    "tpr_at_fpr_0.0001": "leaks found when 1 in 10,000 quiet places may alarm",
    "fpr_at_tpr_0.5": "false alarms when half of the leaks must be found",
    "fpr_at_tpr_0.85": "false alarms when 85 % of the leaks must be found",
    "fpr_at_tpr_0.95": "false alarms when 95 % of the leaks must be found",
    "brier": "Brier score: squared error of the probability; 0 is perfect, 0.25 is always saying one half",
    "ece": "expected calibration error: how far said and true shares lie apart",
    "smallest_resolvable_fpr": "smallest FPR that so few recordings can show, 1 / negatives",
}
COUNTED = {
    "n": "recordings or windows",
    "positives": "with a leak",
    "negatives": "without a leak",
    "predicted_positives": "alarms",
    "tp": "leaks found (TP)",
    "fp": "false alarms (FP)",
    "fn": "missed leaks (FN)",
    "tn": "rightly quiet (TN)",
}
FIELD_SHARES = (0.1, 0.02)


def cards(table: Mapping[str, Any]) -> list[dict[str, str]]:
    """The headline: name, value, interval, and the counts behind it."""
    intervals = table["intervals"]

    def card(key: str, name: str, behind: str, as_share: bool = True) -> dict[str, str]:
        value, interval = table[key], intervals.get(key)
        shown, ends = (percent, percent_range) if as_share else (number, number_range)
        return {
            "name": name,
            "value": shown(value),
            "interval": ends(interval)
            if value is not None
            else str(table["undefined"].get(key, "undefined")),
            "behind": behind,
        }

    tp, fp = table["tp"], table["fp"]
    return [
        card("recall", "of the leaks found", f"{tp} of {table['positives']}"),
        card("fpr", "false alarms where there is no leak", f"{fp} of {table['negatives']}"),
        card("precision", "of the alarms are leaks", f"{tp} of {tp + fp}"),
        card("f1", "F1 of leak", "1 is perfect", as_share=False),
        card("auroc", "AUROC", "1 is perfect, 0.5 is guessing", as_share=False),
    ]


def digs(table: Mapping[str, Any]) -> list[dict[str, str]]:
    """Of 100 digs, how many find a leak: here, and where leaks are rarer. Bayes on recall and FPR and their intervals."""
    recall, fpr = table["recall"], table["fpr"]
    of_recall, of_fpr = table["intervals"].get("recall"), table["intervals"].get("fpr")
    if recall is None or fpr is None or of_recall is None or of_fpr is None:
        return []
    rows = []
    here = table["positives"] / table["n"]
    for share in (here, *(rarer for rarer in FIELD_SHARES if rarer < here)):
        low, high = (
            _precision(of_recall[0], of_fpr[1], share),
            _precision(of_recall[1], of_fpr[0], share),
        )
        best = _precision(recall, fpr, share)
        name = (
            f"as among these recordings ({percent(share)})"
            if share == here
            else f"1 place in {1 / share:.0f}"
        )
        rows.append(
            {
                "share": name,
                "hits": "none raised" if best is None else f"{100 * best:.0f}",
                "range": ""
                if low is None or high is None
                else f"{100 * low:.0f} to {100 * high:.0f}",
            }
        )
    return rows


def _precision(recall: float, fpr: float, share: float) -> float | None:
    alarms = recall * share + fpr * (1.0 - share)
    return recall * share / alarms if alarms > 0 else None


def all_numbers(metrics: Mapping[str, Any], splits: Sequence[str]) -> dict[str, Any]:
    """Every metric of every split, of recordings and of windows, as a table of texts."""
    columns = [(name, unit) for unit in ("recording", "window") for name in reversed(splits)]
    tables = [metrics[name][unit] for name, unit in columns]
    rows = [
        (key, meaning, [str(table[key]) for table in tables]) for key, meaning in COUNTED.items()
    ]
    rows += [
        (key, meaning, [_cell(table, key) for table in tables]) for key, meaning in MEANINGS.items()
    ]
    notes = [
        f"{name}: {metrics[name]['recording']['intervals']['note']}" for name in reversed(splits)
    ]
    notes = [note for note in notes if not note.endswith(": None")]
    return {"notes": notes, "columns": [f"{name}, {unit}s" for name, unit in columns], "rows": rows}


def _cell(table: Mapping[str, Any], key: str) -> str:
    value = table[key]
    if value is None:
        return f"n/a: {table['undefined'].get(key, 'undefined')}"
    interval = table["intervals"].get(key)
    return number(value) + (f" ({number_range(interval)})" if interval else "")


def group_cells(row: Mapping[str, Any]) -> dict[str, str]:
    """A group's row as texts."""
    intervals = row["intervals"]
    return {
        "value": row["value"] or "(not given)",
        "recordings": counted(row["n"], "recording"),
        "wrong": f"{row['errors']} of {row['n']}",
        "wrong_range": percent_range(intervals["error_rate"]),
        "missed": f"{row['fn']} of {row['positives']}" if row["positives"] else "no leaks",
        "alarms": f"{row['fp']} of {row['negatives']}" if row["negatives"] else "only leaks",
        "recall": percent(row["recall"]),
        "recall_range": percent_range(intervals["recall"]),
        "fpr": percent(row["fpr"]),
        "fpr_range": percent_range(intervals["fpr"]),
        "f1": number(row["f1"]),
        "f1_range": number_range(intervals["f1"]),
    }


def audit_cells(audit: Mapping[str, Any], table: Mapping[str, Any]) -> list[dict[str, str]]:
    """The detector and, beside it, what needs no network, by falling AUROC."""
    detector = {
        "name": "the detector",
        "explanation": "what this report is about",
        "auroc": table["auroc"],
        "interval": table["intervals"].get("auroc"),
    }
    rows = sorted([detector, *audit.get("rows", [])], key=lambda row: -(row.get("auroc") or 0.0))
    return [
        {
            "name": str(row["name"]),
            "explanation": str(row.get("explanation", "")),
            "auroc": number(row.get("auroc")),
            "range": number_range(row.get("interval")),
            "width": f"{100 * (row.get('auroc') or 0.0):.0f}",
        }
        for row in rows
    ]
