"""The short table of results that train and evaluate print."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from leakdet.detection.decision import DecisionRule

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


def _with_interval(table: Mapping[str, Any], key: str) -> str:
    if table[key] is None:
        return f"n/a ({table['undefined'].get(key, 'undefined')})"
    interval = table["intervals"].get(key)
    return f"{table[key]:.4f}" + (f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval else "")
