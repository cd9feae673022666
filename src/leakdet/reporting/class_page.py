"""The table of true by predicted class, as a report shows it."""

from collections.abc import Mapping
from typing import Any

from leakdet.evaluation.class_tables import OF_A_CLASS
from leakdet.reporting.wording import NBSP, counted, number, number_range

FEW = 10  # recordings of a class


def class_page(table: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Sentence, rows and notes on the classes of a multiclass model; None of a binary one."""
    if table is None:
        return None
    return {
        "sentence": _sentence(table),
        "names": [entry["name"] for entry in table["classes"]],
        "rows": [_row(table, index) for index in range(len(table["classes"]))],
        "notes": _notes(table),
    }


def _sentence(table: Mapping[str, Any]) -> str:
    if not table["n"]:
        return "No recording has a label that is a class of the model."
    right = sum(table["confusion"][index][index] for index in range(len(table["classes"])))
    interval = table["intervals"]["macro_f1"]
    ends = f" (95{NBSP}% interval {number_range(interval)})" if interval else ""
    return (
        f"The most probable class is true of {right} of {counted(table['n'], 'recording')}; "
        f"macro F1 is {number(table['macro_f1'])}{ends}."
    )


def _row(table: Mapping[str, Any], index: int) -> dict[str, Any]:
    entry, counts = table["classes"][index], table["confusion"][index]
    shares, intervals = table["shares"][index], table["share_intervals"][index]
    cells = [
        {
            "count": count,
            "share": share,
            "interval": interval,
            "kind": "right" if column == index else "wrong" if count else "",
        }
        for column, (count, share, interval) in enumerate(
            zip(counts, shares, intervals, strict=True)
        )
    ]
    facts = {key: entry[key] for key in ("name", "leak", "n", "predicted")}
    return facts | {"cells": cells, "metrics": [_metric(entry, key) for key in OF_A_CLASS]}


def _metric(entry: Mapping[str, Any], key: str) -> str:
    if entry[key] is None:
        return f"n/a: {entry['undefined'].get(key, 'undefined')}"
    interval = entry["intervals"][key]
    return number(entry[key]) + (f" ({number_range(interval)})" if interval else "")


def _notes(table: Mapping[str, Any]) -> list[str]:
    notes = [note[0].upper() + note[1:]] if (note := table["intervals"]["note"]) else []
    few = [f"{row['name']} ({row['n']})" for row in table["classes"] if 0 < row["n"] < FEW]
    if few:
        notes.append(f"Few recordings of {', '.join(few)}: their numbers are uncertain")
    left_out = [f"{label} ({count})" for label, count in table["left_out"].items()]
    if left_out:
        notes.append(f"Not in the table, since no class of the model: {', '.join(left_out)}")
    return notes
