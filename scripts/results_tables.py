"""The text and the tables of the first part of docs/results.md, by scripts/results.py."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leakdet.evaluation.metrics_json import metric_table
from results_goals import REPLICATES, arrays, hard4, misses, trainings, worst_fold
from results_page import cell, interval_cell, table_row

TEXT = """\
# Results on a pipe rig

Written by `scripts/results.py`, `scripts/foreign_sound.py` and `scripts/paper.py`; do not edit. The
recordings are from a student project's pressurised rig and are not part of this repository: 23
recordings of 20 s by one recorder on two days (pipes 1 and 3), 36 of 9 to 23 s by an analogue sensor
on a third day. The group of every scored recording was held out of training. Intervals are 95 %,
resampled by recording: pipes and days are too few to resample, so the intervals do not cover how
results differ from one to another.

Recipe: `experiment=field`. In {fixed} of the {trainings} trainings fewer than 20 recordings were left
for validation, too few to choose weights or a threshold by. So `stop.name=auto` made them {passes}
passes over balanced classes whose last weights count, decided at 0.5, and the recordings for
validation trained too (0 in the table of folds). {repeats} repeat(s) over seeds,
{minutes:.0f} minutes of one thread in all ({fold_s:.1f} s a fold).

## New pipes, days and positions

{goals}

{misses}

In the recorder's sessions all recordings without a leak were made before all leaks, so that whatever
drifted tells them apart: weigh the analogue sensor's numbers more.

## Network and baselines, recording AUROC

{aurocs}

`recorder-pipe` holds out one pipe after the other among the recordings of the recorder, and so on;
`-recording` is ten folds of single recordings. `sensor-to-sensor` trains on one sensor and tests on
the other, both ways; `both-pipe` trains on both and holds out one pipe after the other. The sign of a
trait is chosen on the training recordings, so a trait without information may fall below 0.5; so may
a group's share of leaks where single recordings are held out, since the share lacks the one that is
held out.

## Decisions of the network, at the stored threshold

{decisions}

The worst fold is the lowest AUROC of a single training, and that of a fold in the mean of its seeds.

## Each sensor with and without the other

Pipes held out; the other sensor's recordings of the remaining pipe train too, or do not.

{sensors}

## Findings of the shortcut audit

{findings}

## Null run: labels shuffled over recordings

{null_findings}

## Folds

{folds}
"""


def page(run: Mapping[str, Any], null: Mapping[str, Any], predictions: Path) -> str:
    """The part of scripts/results.py."""
    results = run["crossval"]
    folds = [fold for result in results.values() for fold in result["folds"]]
    seconds = [fold["seconds"] for fold in folds]
    with predictions.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    goals = hard4(results, rows)
    return TEXT.format(
        fixed=sum(fold["validated_by"] == "none" for fold in folds),
        trainings=len(folds),
        passes=run["settings"]["stop"]["passes"],
        repeats=run["settings"]["crossval"]["repeats"],
        minutes=sum(seconds) / 60,
        fold_s=sum(seconds) / len(seconds),
        goals="\n".join(goals),
        misses=misses(results, goals),
        aurocs="\n".join(auroc_table(results)),
        decisions="\n".join(decision_table(results)),
        sensors="\n".join(sensor_table(rows)),
        findings=findings(results),
        null_findings=findings(null["crossval"]),
        folds="\n".join(fold_table(results)),
    )


def sensor_table(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """AUROC and balanced accuracy of each sensor, with and without the other one."""
    heads = ("AUROC alone", "with the other", "balanced accuracy alone", "with the other")
    lines = [table_row("", *heads), "|---|---|---|---|---|"]
    for sensor, alone in (("recorder_48k", "recorder-pipe"), ("analog_40k", "analog-pipe")):
        tables = []
        for protocol in (alone, "both-pipe"):
            of = arrays(r for r in rows if r["protocol"] == protocol and r["sensor"] == sensor)
            parts = (of["score"], of["is_leak"], of["threshold"], of["recording_id"])
            tables.append(metric_table(*parts, REPLICATES))
        cells = [interval_cell(t, key) for key in ("auroc", "balanced_accuracy") for t in tables]
        lines.append(table_row(sensor, *cells))
    return lines


def findings(results: Mapping[str, Any]) -> str:
    """Every sentence of the audits as a list."""
    return "\n".join(
        f"- `{name}`: {sentence}"
        for name, result in results.items()
        for sentence in result["audit"]["findings"]
    )


def auroc_table(results: Mapping[str, Any]) -> list[str]:
    """Rows are the network and every baseline, columns the protocols."""
    audits = [result["audit"] for result in results.values()]
    baselines = [{row["key"]: row for row in audit["rows"]} for audit in audits]
    counts = [r["recording"]["n"] // len(r["auroc_of_repeats"]) for r in results.values()]
    return [
        table_row("", *results),
        "|---|" + "---|" * len(results),
        table_row("recordings", *counts),
        table_row("**network**", *(f"**{cell(audit['network'])}**" for audit in audits)),
        *(
            table_row(key.replace("_", " "), *(cell(rows.get(key)) for rows in baselines))
            for key in dict.fromkeys(key for rows in baselines for key in rows)
        ),
    ]


def decision_table(results: Mapping[str, Any]) -> list[str]:
    """Rates of each protocol's decisions, and the spread of its AUROC."""
    keys = ("f1", "recall", "fpr", "balanced_accuracy")
    heads = ("F1", "recall", "FPR", "balanced accuracy", "AUROC of each repeat", "worst fold")
    lines = [table_row("", *heads, "in the mean"), "|---|" + "---|" * 7]
    for name, result in results.items():
        cells = [interval_cell(result["recording"], key) for key in keys]
        repeats = ", ".join(f"{value:.2f}" for value in result["auroc_of_repeats"].values())
        # single recordings of the ten folds are too few for an AUROC of their own
        worst = [min(value for value, _ in trainings(results, name)), worst_fold(results, name)]
        ends = ["-", "-"] if name.endswith("-recording") else [f"{value:.2f}" for value in worst]
        lines.append(table_row(name, *cells, repeats, *ends))
    return lines


def fold_table(results: Mapping[str, Any]) -> list[str]:
    """Each fold of the protocols that hold out groups."""
    lines = [
        "| protocol | held out | seed | train / val / test | steps | best epoch | threshold | "
        "AUROC |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, result in results.items():
        for fold in [] if name.endswith("-recording") else result["folds"]:
            counts = " / ".join(str(fold["recordings"][part]) for part in ("train", "val", "test"))
            auroc = "-" if fold["auroc"] is None else f"{fold['auroc']:.2f}"
            of_run = (fold["fold"], fold["seed"], counts, fold["steps"], fold["best_epoch"] + 1)
            lines.append(table_row(name, *of_run, f"{fold['threshold']:.2f}", auroc))
    return lines
