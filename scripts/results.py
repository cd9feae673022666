"""Cross-validate the default recipe on a pipe rig and write its part of docs/results.md.

The recordings are not part of this repository: they are expected in ../shared/data/rig, or where
RIG points. Finished folds are kept, so the script can be stopped and started at any time.

    python scripts/results.py --work runs/results
"""

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from leakdet.evaluation.metrics import auroc
from leakdet.evaluation.metrics_json import metric_table

PAGE = Path(__file__).resolve().parent.parent / "docs" / "results.md"
PARTS = (
    "results",
    "foreign_sound",
    "negatives",
    "paper",
    "learning",
    "incremental",
)  # in their order, each of scripts/PART.py


def write_part(name: str, text: str) -> Path:
    """Replace one part of the page and leave the others."""
    marks = re.split(r"<!-- (\w+) -->\n", PAGE.read_text(encoding="utf-8") if PAGE.exists() else "")
    parts = dict(zip(marks[1::2], marks[2::2], strict=True)) | {name: f"\n{text.strip()}\n\n"}
    page = "".join(f"<!-- {part} -->\n{parts[part]}" for part in PARTS if part in parts)
    PAGE.write_text(page.rstrip("\n") + "\n", encoding="utf-8")
    return PAGE


def table_row(*cells: object) -> str:
    return "|" + "|".join(f" {cell} " if cell != "" else " " for cell in cells) + "|"


def cell(row: Mapping[str, Any] | None) -> str:
    """A value with its interval."""
    if row is None or row["auroc"] is None:
        return "-"
    interval = row["interval"]
    return f"{row['auroc']:.2f}" + (f" ({interval[0]:.2f}–{interval[1]:.2f})" if interval else "")


def interval_cell(table: Mapping[str, Any], key: str) -> str:
    """A metric of a table of metrics.json, with its interval."""
    return cell({"auroc": table[key], "interval": table["intervals"][key]})


HARD4 = ("recorder-pipe", "recorder-session", "analog-pipe", "analog-position")
# what the recipe was to reach
GOALS = {"mean AUROC": 0.87, "AUROC of the worst training": 0.80, "balanced accuracy": 0.80}
REPLICATES = 2000


def hard4(results: Mapping[str, Any], rows: Sequence[Mapping[str, str]]) -> list[str]:
    """The goals of the recipe and what it reaches."""
    tables = [results[name]["recording"] for name in HARD4]
    low, high = mean_interval(rows)
    worst, where = min(
        (value, place) for name in HARD4 for value, place in trainings(results, name)
    )
    reached = {
        "mean AUROC": (np.mean([table["auroc"] for table in tables]), f" ({low:.2f}–{high:.2f})"),
        "AUROC of the worst training": (worst, f" ({where})"),
        "balanced accuracy": (np.mean([table["balanced_accuracy"] for table in tables]), ""),
    }
    lines = [table_row("", "reached", "goal", ""), "|---|---|---|---|"]
    for name, (value, more) in reached.items():
        met = "met" if round(float(value), 3) >= GOALS[name] else "**missed**"
        lines.append(table_row(name, f"{value:.3f}{more}", f"{GOALS[name]:.2f}", met))
    return lines


def trainings(results: Mapping[str, Any], protocol: str) -> Iterator[tuple[float, str]]:
    """AUROC and name of each training of a protocol."""
    for fold in results[protocol]["folds"]:
        if fold["auroc"] is not None:
            yield fold["auroc"], f"{protocol} {fold['fold']}, seed {fold['seed']}"


def worst_fold(results: Mapping[str, Any], protocol: str) -> float:
    """The lowest mean over seeds of the AUROC of a fold."""
    of_fold: dict[str, list[float]] = {}
    for fold in results[protocol]["folds"]:
        if fold["auroc"] is not None:
            of_fold.setdefault(fold["fold"], []).append(fold["auroc"])
    return min(float(np.mean(values)) for values in of_fold.values())


def misses(results: Mapping[str, Any], goals: Sequence[str]) -> str:
    """What the numbers are, what is missed, and how little a fold can say."""
    of_trainings = [pair for name in HARD4 for pair in trainings(results, name)]
    below = [name for value, name in of_trainings if value < GOALS["AUROC of the worst training"]]
    in_the_mean = min(worst_fold(results, name) for name in HARD4)
    missed = sum("missed" in line for line in goals)
    text = (
        f"Means of {', '.join(HARD4)}: the protocols that hold out what a new place would be. The "
        "interval of the mean draws recordings, each with all of its scores. "
        f"{missed or 'None'} of {len(GOALS)} goals {'is' if missed == 1 else 'are'} missed. "
        f"{len(below)} of {len(of_trainings)} trainings stay below 0.80"
        f"{': ' if below else ''}{'; '.join(below)}. In the mean of its seeds the worst fold has "
        f"{in_the_mean:.2f}. A fold has 11 to 18 recordings, so that a single AUROC is uncertain by "
        "0.2 and more: this shows that some positions are harder, not how hard."
    )
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def mean_interval(rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Bootstrap of the mean AUROC: recordings are drawn, the same ones for all protocols."""
    known = sorted({row["recording_id"] for row in rows})
    number = {name: index for index, name in enumerate(known)}
    protocols = [arrays(row for row in rows if row["protocol"] == name) for name in HARD4]
    of_row = [np.array([number[name] for name in p["recording_id"]]) for p in protocols]
    rng, means = np.random.default_rng(0), []
    for _ in range(REPLICATES):
        times = np.bincount(rng.integers(0, len(known), len(known)), minlength=len(known))
        values = []
        for p, index in zip(protocols, of_row, strict=True):
            drawn = np.repeat(np.arange(len(index)), times[index])
            values.append(auroc(p["score"][drawn], p["is_leak"][drawn]))
        means.append(np.mean([value for value in values if value is not None]))
    return [float(end) for end in np.quantile(means, [0.025, 0.975])]


def arrays(rows: Iterable[Mapping[str, str]]) -> dict[str, np.ndarray]:
    """Columns of predictions.csv."""
    kept = list(rows)
    return {
        "recording_id": np.array([row["recording_id"] for row in kept]),
        "score": np.array([float(row["leak_prob"]) for row in kept]),
        "threshold": np.array([float(row["threshold"]) for row in kept]),
        "is_leak": np.array([row["is_leak"] == "1" for row in kept]),
    }


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


REPOSITORY = Path(__file__).resolve().parent.parent
RIG = Path(os.environ.get("RIG", REPOSITORY.parent / "shared" / "data" / "rig"))

RECORDER = "session:[2017Nov02,2017Nov10],pipe:[1,3],label:[leak,no_leak]"
ANALOG = "sensor:[analog_40k],position:[front,mid,end],label:[leak,no_leak]"
BOTH = "pipe:[1,3],position:['',front,mid,end],label:[leak,no_leak]"
Protocol = tuple[str, int, str]  # column to hold out, folds, which recordings
PROTOCOLS: dict[str, Protocol] = {
    "recorder-recording": ("recording", 10, RECORDER),
    "recorder-pressure": ("pressure", 0, RECORDER),
    "recorder-pipe": ("pipe", 0, RECORDER),
    "recorder-session": ("session", 0, RECORDER),
    "analog-recording": ("recording", 10, ANALOG),
    "analog-pressure": ("pressure", 0, ANALOG),
    "analog-pipe": ("pipe", 0, ANALOG),
    "analog-position": ("position", 0, ANALOG),
    "sensor-to-sensor": ("sensor", 0, BOTH),
    "both-pipe": ("pipe", 0, BOTH),
}
NULL_PROTOCOLS = ("recorder-pipe", "analog-pipe")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, default=Path("runs/results"), help="store and folds")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    store = options.work / "store"
    if not store.exists():
        leakdet("build", f"source={RIG / 'recordings.csv'}", f"out={store}", "waveform=int16")
    folds, null_folds = options.work / "folds", options.work / "null"
    run = cross_validate(store, folds, options.jobs, PROTOCOLS, options.repeats)
    null_protocols = {name: PROTOCOLS[name] for name in NULL_PROTOCOLS}
    shuffled = "data.shuffle_labels=true"
    null = cross_validate(store, null_folds, options.jobs, null_protocols, 1, shuffled)
    print(write_part("results", page(run, null, folds / "predictions.csv")))


def cross_validate(
    store: Path, out: Path, jobs: int, named: Mapping[str, Protocol], repeats: int, *more: str
) -> dict[str, Any]:
    """Run all folds in `jobs` processes, pool them, and return the content of metrics.json."""
    protocols = ",".join(
        f"{name}:{{group_by:{column},folds:{folds},where:{{{where}}}}}"
        for name, (column, folds, where) in named.items()
    )
    common = [
        f"data.store={store}",
        f"crossval.out={out}",
        f"crossval.repeats={repeats}",
        f"crossval.protocols={{{protocols}}}",
        *more,
    ]
    workers = [
        start("crossval", *common, f"crossval.parts={jobs}", f"crossval.part={job}")
        for job in range(jobs)
    ]
    codes = [worker.wait() for worker in workers]
    if any(codes):
        sys.exit("a part of the cross-validation failed")
    leakdet("crossval", *common)
    metrics: dict[str, Any] = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    return metrics


def start(command: str, *arguments: str) -> "subprocess.Popen[bytes]":
    """Start a command in a process of one thread, since the processes share the cores."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", f"leakdet.{command}", *arguments], env=environment
    )


def leakdet(command: str, *arguments: str) -> None:
    """Run a command; with exit code 1 it left out some recordings, and said which."""
    if start(command, *arguments).wait() not in (0, 1):
        sys.exit(f"leakdet.{command} failed")


if __name__ == "__main__":
    main()
