"""The short table of results that train and evaluate print."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from leakdet.detection.decision import DecisionRule
from leakdet.detection.groups import worst_sentence

SHOWN = ("f1", "auroc", "precision", "recall", "fpr", "accuracy")


def show_metrics(splits: Mapping[str, Mapping[str, Any]], rule: DecisionRule) -> None:
    """Recordings of each split: metrics with their 95 % intervals, and the counts behind them."""
    table = Table(title="Recordings (95 % interval)", title_justify="left")
    table.add_column("")
    for name in splits:
        table.add_column(name, justify="right")
    for key in SHOWN:
        table.add_row(key, *(_with_interval(found["recording"], key) for found in splits.values()))
    for key in ("tp", "fp", "fn", "tn"):
        table.add_row(key, *(str(found["recording"][key]) for found in splits.values()))
    console = Console(highlight=False, soft_wrap=True)
    console.print(table)
    console.print(
        f"Decision: {rule.pooling} of the windows' leak_prob >= {rule.threshold:.4f} "
        f"({rule.policy}, fitted on {rule.fitted_on or 'nothing'})"
    )
    if rule.note:
        console.print(f"Note: {rule.note}")
    for name, found in splits.items():
        sentence = worst_sentence(found["groups"])
        if sentence:
            console.print(f"Groups of {name}: {sentence}")


def show_comparison(comparison: Mapping[str, Any]) -> None:
    """Two models on the same recordings: their metrics, the paired differences and what follows."""
    table = Table(
        title="Recordings: B against A (95 % interval of the paired difference)", title_justify="left"
    )
    for heading in ("", "A", "B", "B - A", "interval"):
        table.add_column(heading, justify="right" if heading else "left")
    for row in comparison["differences"]:
        values = ["n/a" if row[key] is None else f"{row[key]:.4f}" for key in ("a", "b", "difference")]
        interval = row["interval"]
        ends = f"[{interval[0]:+.3f}, {interval[1]:+.3f}]" if interval else (row["note"] or "n/a")
        table.add_row(row["metric"], *values, ends)
    console = Console(highlight=False, soft_wrap=True)
    console.print(table)
    console.print(comparison["sentence"])


def _with_interval(table: Mapping[str, Any], key: str) -> str:
    if table[key] is None:
        return f"n/a ({table['undefined'].get(key, 'undefined')})"
    interval = table["intervals"].get(key)
    return f"{table[key]:.4f}" + (f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval else "")
