"""The numbers of a report in the order in which a reader needs them, each with its meaning."""

from collections.abc import Mapping, Sequence
from typing import Any

from leakdet.evaluation.metrics import precision_at
from leakdet.reporting.wording import NBSP, number, number_range, percent, percent_range

MEANINGS = {
    "f1": "F1 of leak: harmonic mean of recall and precision",
    "recall": "recall, TPR: share of leaks that are found",
    "precision": "precision: share of alarms that are leaks, at this share of leaks",
    "fpr": "FPR: share of places without a leak that raise an alarm",
    "specificity": "specificity: share of places without a leak that raise none",
    "accuracy": "accuracy: share of correct verdicts",
    "balanced_accuracy": "balanced accuracy: mean of recall and specificity",
    "auroc": "AUROC: probability that a leak scores above a place without one; 0.5 is guessing",
    "average_precision": "average precision: area under precision over recall",
    "tpr_at_fpr_0.1": "leaks found if 1 in 10 places without a leak may raise an alarm",
    "tpr_at_fpr_0.01": "leaks found if 1 in 100 places without a leak may raise an alarm",
    "tpr_at_fpr_0.001": "leaks found if 1 in 1,000 places without a leak may raise an alarm",
    "tpr_at_fpr_0.0001": "leaks found if 1 in 10,000 places without a leak may raise an alarm",
    "fpr_at_tpr_0.5": "FPR if half of the leaks must be found",
    "fpr_at_tpr_0.85": "FPR if 85 % of the leaks must be found",
    "fpr_at_tpr_0.95": "FPR if 95 % of the leaks must be found",
    "brier": "Brier score: mean squared error of the probability; 0 is perfect",
    "ece": "expected calibration error: mean gap between predicted and observed share of leaks",
    "smallest_resolvable_fpr": "smallest FPR that so few recordings can show, 1 / negatives",
}
COUNT_MEANINGS = {
    "n": "recordings or windows",
    "positives": "with a leak",
    "negatives": "without a leak",
    "predicted_positives": "alarms",
    "tp": "leaks found (true positives)",
    "fp": "false alarms (false positives)",
    "fn": "missed leaks (false negatives)",
    "tn": "true negatives",
}
FIELD_SHARES = (0.1, 0.02)  # of places that leak, besides that of the recordings


def cards(table: Mapping[str, Any]) -> list[dict[str, str]]:
    """The headline: name, value, interval, and the counts behind it."""

    def card(key: str, name: str, basis: str, as_share: bool = True) -> dict[str, str]:
        value, interval = table[key], table["intervals"][key]
        shown, ends = (percent, percent_range) if as_share else (number, number_range)
        undefined = str(table["undefined"].get(key, "undefined"))
        return {
            "name": name,
            "value": shown(value),
            "interval": ends(interval) if value is not None else undefined,
            "basis": basis,
        }

    tp, fp = table["tp"], table["fp"]
    return [
        card("recall", "of the leaks found (recall)", f"{tp} of {table['positives']}"),
        card("fpr", "false alarm rate (FPR)", f"{fp} of {table['negatives']}"),
        card("precision", "of the alarms are leaks (precision)", f"{tp} of {tp + fp}"),
        card("f1", "F1 of leak", "1 is perfect", as_share=False),
        card("auroc", "AUROC", "1 is perfect, 0.5 is guessing", as_share=False),
    ]


def interval_sentence(table: Mapping[str, Any]) -> str:
    """A sentence on what the intervals resample, and on those that are not the bootstrap's."""
    unit = table["intervals"]["unit"]
    what = "recordings" if unit == "recording" else f"whole groups ({unit})"
    parts = (table["intervals"]["note"] or "").split("; ")
    # what a reader must know stands among the limits
    notes = [part for part in parts if part and not part.startswith(("the intervals", "no int"))]
    return f"95{NBSP}% intervals resample {what}." + "".join(f" Of {note}." for note in notes)


def digs(table: Mapping[str, Any]) -> list[dict[str, str]]:
    """Leaks found per 100 digs, at the share of leaks of these recordings and at rarer ones."""
    recall, fpr, intervals = table["recall"], table["fpr"], table["intervals"]
    if None in (recall, fpr, intervals["recall"], intervals["fpr"]):
        return []
    (low_recall, high_recall), (low_fpr, high_fpr) = intervals["recall"], intervals["fpr"]
    share_here = table["positives"] / table["n"]
    shares = {f"as among these recordings ({percent(share_here)})": share_here}
    shares |= {f"1 place in {1 / share:.0f}": share for share in FIELD_SHARES if share < share_here}
    rows = []
    for name, share in shares.items():
        precision = precision_at(recall, fpr, share)
        low, high = (
            precision_at(low_recall, high_fpr, share),
            precision_at(high_recall, low_fpr, share),
        )
        rows.append(
            {
                "share": name,
                "hits": "no alarms" if precision is None else f"{100 * precision:.0f}",
                "range": ""
                if low is None or high is None
                else f"{100 * low:.0f} to {100 * high:.0f}",
            }
        )
    return rows


def all_numbers(metrics: Mapping[str, Any], splits: Sequence[str]) -> dict[str, Any]:
    """Every metric of every split as a table of texts; the judged split comes first."""
    judged_first = list(reversed(splits))
    columns = [(name, unit) for unit in ("recording", "window") for name in judged_first]
    tables = [metrics[name][unit] for name, unit in columns]
    counts = [
        (key, meaning, [str(table[key]) for table in tables])
        for key, meaning in COUNT_MEANINGS.items()
    ]
    rates = [
        (key, meaning, [_cell(table, key) for table in tables]) for key, meaning in MEANINGS.items()
    ]
    notes = {name: metrics[name]["recording"]["intervals"]["note"] for name in judged_first}
    return {
        "notes": [f"{name}: {note}" for name, note in notes.items() if note],
        "columns": [f"{name}, {unit}s" for name, unit in columns],
        "rows": counts + rates,
    }


def _cell(table: Mapping[str, Any], key: str) -> str:
    value = table[key]
    if value is None:
        return f"n/a: {table['undefined'].get(key, 'undefined')}"
    interval = table["intervals"].get(key)
    return number(value) + (f" ({number_range(interval)})" if interval else "")


def audit_rows(audit: Mapping[str, Any], table: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The detector among the baselines that need no network, by falling AUROC."""
    detector = {
        "name": "the detector",
        "explanation": "what this report is about",
        "auroc": table["auroc"],
        "interval": table["intervals"]["auroc"],
    }
    return sorted([detector, *audit["rows"]], key=lambda row: -(row["auroc"] or 0.0))
