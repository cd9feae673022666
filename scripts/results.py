"""Cross-validate the default recipe on a pipe rig and write docs/results.md from the outcome.

The recordings are not part of this repository: they are expected in ../shared/data/rig, or where
RIG points. Finished folds are kept, so the script can be stopped and started at any time.

    python scripts/results.py --work runs/results
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
RIG = Path(os.environ.get("RIG", REPOSITORY.parent / "shared" / "data" / "rig"))

RECORDER = "session:[2017Nov02,2017Nov10],pipe:[1,3],label:[leak,no_leak]"
ANALOG = "sensor:[analog_40k],position:[front,mid,end],label:[leak,no_leak]"
BOTH = "pipe:[1,3],position:['',front,mid,end],label:[leak,no_leak]"
# name: (column to hold out, folds, which recordings)
PROTOCOLS = {
    "recorder-recording": ("recording", 10, RECORDER),
    "recorder-pressure": ("pressure", 0, RECORDER),
    "recorder-pipe": ("pipe", 0, RECORDER),
    "recorder-session": ("session", 0, RECORDER),
    "analog-recording": ("recording", 10, ANALOG),
    "analog-pressure": ("pressure", 0, ANALOG),
    "analog-pipe": ("pipe", 0, ANALOG),
    "analog-position": ("position", 0, ANALOG),
    "sensor-to-sensor": ("sensor", 0, BOTH),
}
NULL_PROTOCOLS = ("recorder-pipe", "analog-pipe")

PAGE = """\
# Results on a pipe rig

Written by `scripts/results.py`; do not edit. The recordings are from a student project's
pressurised rig and are not part of this repository: 23 recordings of 20 s by one recorder on two
days (pipes 1 and 3), 36 of 9 to 23 s by an analogue sensor on a third day. The group of every
scored recording was held out of training, early stopping and the threshold. Intervals are 95 %,
resampled by recording: pipes and days are too few to resample, so the intervals do not cover how
results differ from one to another.

Recipe: `experiment=field`, {repeats} repeat(s) over seeds, {trainings} trainings,
{minutes:.0f} minutes of one thread in all ({fold_s:.1f} s a fold).

## Network and baselines, recording AUROC

{aurocs}

`recorder-pipe` holds out one pipe after the other among the recordings of the recorder, and so on;
`-recording` is ten folds of single recordings. `sensor-to-sensor` trains on one sensor and tests on
the other, both ways. The sign of a trait is chosen on the training recordings, so a trait without
information may fall below 0.5; so may a group's share of leaks where single recordings are held
out, since the share lacks the one that is held out.

## Decisions of the network, at the threshold fitted on each fold's validation part

{decisions}

## Findings of the shortcut audit

{findings}

## Null run: labels shuffled over recordings

{null_findings}

## Folds

{folds}
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, default=Path("runs/results"), help="store and folds")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=REPOSITORY / "docs" / "results.md")
    options = parser.parse_args()
    store = options.work / "store"
    if not store.exists():
        leakdet("build", f"source={RIG / 'recordings.csv'}", f"out={store}", "waveform=int16")
    folds, null_folds = options.work / "folds", options.work / "null"
    run = cross_validate(store, folds, options.jobs, PROTOCOLS, options.repeats)
    null = cross_validate(
        store, null_folds, options.jobs, NULL_PROTOCOLS, 1, "data.shuffle_labels=true"
    )
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(page(run, null), encoding="utf-8")
    print(options.out)


def cross_validate(
    store: Path, out: Path, jobs: int, names: Collection[str], repeats: int, *more: str
) -> dict[str, Any]:
    """Run all folds in `jobs` processes, pool them, and return the content of metrics.json."""
    protocols = ",".join(
        f"{name}:{{group_by:{column},folds:{folds},where:{{{where}}}}}"
        for name, (column, folds, where) in PROTOCOLS.items()
        if name in names
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


def page(run: Mapping[str, Any], null: Mapping[str, Any]) -> str:
    """The content of docs/results.md."""
    results = run["crossval"]
    seconds = [fold["seconds"] for result in results.values() for fold in result["folds"]]
    return PAGE.format(
        repeats=run["settings"]["crossval"]["repeats"],
        trainings=len(seconds),
        minutes=sum(seconds) / 60,
        fold_s=sum(seconds) / len(seconds),
        aurocs="\n".join(auroc_table(results)),
        decisions="\n".join(decision_table(results)),
        findings=findings(results),
        null_findings=findings(null["crossval"]),
        folds="\n".join(fold_table(results)),
    )


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
    """F1, recall and false-positive rate of each protocol."""
    lines = [
        "| | F1 | recall | FPR | AUROC of each repeat | mean AUROC within folds |",
        "|---|---|---|---|---|---|",
    ]
    for name, result in results.items():
        table = result["recording"]
        cells = [
            cell({"auroc": table[key], "interval": table["intervals"][key]})
            for key in ("f1", "recall", "fpr")
        ]
        repeats = ", ".join(f"{value:.2f}" for value in result["auroc_of_repeats"].values())
        within = [fold["auroc"] for fold in result["folds"] if fold["auroc"] is not None]
        mean = f"{sum(within) / len(within):.2f}" if within else "-"
        lines.append(table_row(name, *cells, repeats, mean))
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


def table_row(*cells: object) -> str:
    return "|" + "|".join(f" {cell} " if cell != "" else " " for cell in cells) + "|"


def cell(row: Mapping[str, Any] | None) -> str:
    """A value with its interval."""
    if row is None or row["auroc"] is None:
        return "-"
    interval = row["interval"]
    return f"{row['auroc']:.2f}" + (f" ({interval[0]:.2f}–{interval[1]:.2f})" if interval else "")


if __name__ == "__main__":
    main()
