"""Tables of results that commands print."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from leakdet.detection.decision import DecisionRule
from leakdet.evaluation.class_tables import class_sentence
from leakdet.evaluation.coverage import SHARES
from leakdet.evaluation.groups import sensor_sentences, worst_sentence

WITHOUT_OTHERS = (
    "Whether a sensor does better when the others do not train: docs/crossval.md, several sensors."
)
SHOWN = ("f1", "auroc", "precision", "recall", "fpr", "accuracy")


def metrics_text(
    splits: Mapping[str, Mapping[str, Any]], rule: DecisionRule, all_met: bool = False
) -> str:
    """Recordings of each split: metrics with their 95 % intervals, and the counts behind them.

    The title says it where the model has met all recordings in training.
    """
    what = "Recordings met in training (no evidence)" if all_met else "Recordings"
    table = Table(title=f"{what} (95 % interval)", title_justify="left")
    table.add_column("")
    for name in splits:
        table.add_column(name, justify="right")
    for key in SHOWN:
        table.add_row(key, *(_with_interval(found["recording"], key) for found in splits.values()))
    for key in ("tp", "fp", "fn", "tn"):
        table.add_row(key, *(str(found["recording"][key]) for found in splits.values()))
    for key in SHARES:
        shares = [found["coverage"] for found in splits.values()]
        table.add_row(key.replace("_", " "), *(_with_interval(of, key) for of in shares))
    decision = (
        f"Decision: {rule.pooling} of the windows' leak_prob >= {rule.threshold:.4f} "
        f"({rule.policy}, {f'fitted on {rule.fitted_on}' if rule.fitted_on else 'not fitted'})"
    )
    if doubt := rule.doubt_text():
        decision += f". Undecided, and counted by its side of the threshold from f1 to tn: {doubt}"
    notes = [f"Note: {rule.note}"] if rule.note else []
    worst = {name: worst_sentence(found["groups"]) for name, found in splits.items()}
    groups = [f"Groups of {name}: {sentence}" for name, sentence in worst.items() if sentence]
    sensors = sensors_text(*list(splits.items())[-1])
    groups += [*sensors, WITHOUT_OTHERS] if sensors else []
    classes = _class_lines(splits)
    return _rendered(table, *_interval_notes(splits), decision, *notes, *groups, *classes)


def sensors_text(name: str, tables: Mapping[str, Any]) -> list[str]:
    """A line on each of several sensors of a split or protocol."""
    return [f"Sensors of {name}: {sentence}" for sentence in sensor_sentences(tables["groups"])]


def comparison_text(comparison: Mapping[str, Any]) -> str:
    """Two models on the same recordings: their metrics, the paired differences and what follows."""
    a, b = comparison["names"]
    table = Table(
        title=f"Recordings: {b} against {a} (95 % interval of the paired difference)",
        title_justify="left",
    )
    for heading in ("", a, b, "difference", "interval"):
        table.add_column(heading, justify="right" if heading else "left")
    for row in comparison["differences"]:
        values = [
            "n/a" if row[key] is None else f"{row[key]:.4f}" for key in ("a", "b", "difference")
        ]
        interval = row["interval"]
        ends = f"[{interval[0]:+.3f}, {interval[1]:+.3f}]" if interval else (row["note"] or "n/a")
        table.add_row(row["metric"], *values, ends)
    return _rendered(table, comparison["sentence"], comparison["recordings"]["sentence"])


def difference_lines(comparison: Mapping[str, Any]) -> list[str]:
    """Two models on the same recordings: each metric of both, and what follows."""
    lines, (a, b) = [], comparison["names"]
    for row in comparison["differences"]:
        if row["metric"] not in SHOWN[:5]:
            continue
        interval = row["interval"]
        ends = f"[{interval[0]:+.2f}, {interval[1]:+.2f}]" if interval else row["note"] or ""
        values = (
            "undefined" if row[key] is None else f"{row[key]:{sign}.2f}"
            for key, sign in (("a", ""), ("b", ""), ("difference", "+"))
        )
        of_a, of_b, difference = values
        lines.append(f"{row['metric']:<10}{of_a} of {a}, {of_b} of {b}: {difference} {ends}")
    return [*lines, f"verdict  {comparison['sentence']}"]


def _class_lines(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A line for each result of a multiclass model."""
    found = {name: result["classes"] for name, result in results.items() if "classes" in result}
    return [f"Classes of {name}: {class_sentence(table)}" for name, table in found.items()]


def _with_interval(table: Mapping[str, Any], key: str) -> str:
    if table[key] is None:
        return f"n/a ({table['undefined'].get(key, 'undefined')})"
    interval = table["intervals"].get(key)
    return f"{table[key]:.4f}" + (f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval else "")


def protocols_text(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Protocols side by side: network, decisions and baselines, each above its 95 % interval."""
    table = Table(title="Held-out recordings (95 % interval)", title_justify="left")
    table.add_column("")
    for name in results:
        table.add_column(name, justify="right")
    tables = [found["recording"] for found in results.values()]
    table.add_row("recordings (leaks)", *(f"{t['n']} ({t['positives']})" for t in tables))
    table.add_row(
        "AUROC of the network", *(_below(t["auroc"], t["intervals"]["auroc"]) for t in tables)
    )
    for key in ("f1", "recall", "fpr"):
        table.add_row(
            f"{key} of its decisions", *(_below(t[key], t["intervals"][key]) for t in tables)
        )
    for key in SHARES:
        shares = [found["coverage"] for found in results.values()]
        table.add_row(
            key.replace("_", " "), *(_below(of[key], of["intervals"][key]) for of in shares)
        )
    table.add_section()
    audits = [{row["key"]: row for row in found["audit"]["rows"]} for found in results.values()]
    for key, row in {key: row for audit in audits for key, row in audit.items()}.items():
        found_rows = (audit.get(key, {"auroc": None, "interval": None}) for audit in audits)
        table.add_row(
            f"AUROC of {row['name']}", *(_below(r["auroc"], r["interval"]) for r in found_rows)
        )
    findings = [
        f"{name}: {sentence}"
        for name, found in results.items()
        for sentence in found["audit"]["findings"]
    ]
    return _rendered(*findings, table, *_interval_notes(results), *_class_lines(results))


def _interval_notes(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The notes on the intervals of each result, if any."""
    notes = {name: found["recording"]["intervals"].get("note") for name, found in results.items()}
    return [f"Intervals of {name}: {note}" for name, note in notes.items() if note]


def _rendered(*parts: Table | str) -> str:
    """Tables and sentences as standard output shows them."""
    console = Console(highlight=False, soft_wrap=True, markup=False)
    with console.capture() as capture:
        for part in parts:
            console.print(part)
    return capture.get().rstrip("\n")


def _below(value: float | None, interval: Sequence[float] | None) -> str:
    if value is None:
        return "n/a"
    return f"{value:.2f}" + (f"\n{interval[0]:.2f}–{interval[1]:.2f}" if interval else "")
