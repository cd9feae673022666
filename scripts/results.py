"""Cross-validate the default recipe on a pipe rig and write docs/results.md from what comes out,
whatever it is.

The recordings are not part of this repository: they are expected in ../shared/data/rig, or where
RIG points. Folds that are done are not run again, so that the script may be stopped and started at
any moment.

    python scripts/results.py --work runs/results
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping
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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--work", type=Path, default=Path("runs/results"), help="where store and folds are kept"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=REPOSITORY / "docs" / "results.md")
    arguments = parser.parse_args()
    store = arguments.work / "store"
    if not store.exists():
        leakdet("build", f"source={RIG / 'recordings.csv'}", f"out={store}", "waveform=int16")
    run = cross_validate(store, arguments.work / "folds", arguments.repeats, arguments.jobs)
    null = cross_validate(
        store,
        arguments.work / "null",
        1,
        arguments.jobs,
        {"recorder-pipe", "analog-pipe"},
        "data.shuffle_labels=true",
    )
    arguments.out.parent.mkdir(exist_ok=True)
    arguments.out.write_text(page(run, null), encoding="utf-8")
    print(arguments.out)


def cross_validate(
    store: Path, out: Path, repeats: int, jobs: int, names: set[str] | None = None, *more: str
) -> dict[str, Any]:
    """Run all folds in `jobs` processes of one thread each, pool them, and return the content of
    metrics.json.
    """
    chosen = {name: what for name, what in PROTOCOLS.items() if names is None or name in names}
    protocols = ",".join(
        f"{name}:{{group_by:{column},folds:{folds},where:{{{where}}}}}"
        for name, (column, folds, where) in chosen.items()
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


def start(door: str, *arguments: str) -> "subprocess.Popen[bytes]":
    """Start a command in a process of one thread, since the processes share the cores."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-m", f"leakdet.{door}", *arguments], env=environment)


def leakdet(door: str, *arguments: str) -> None:
    """Run a door; exit code 1 says that some recordings were left out, which the door has said."""
    if start(door, *arguments).wait() not in (0, 1):
        sys.exit(f"leakdet.{door} failed")


# --- the page


def page(run: Mapping[str, Any], null: Mapping[str, Any]) -> str:
    """docs/results.md."""
    found = run["crossval"]
    folds = [fold for result in found.values() for fold in result["folds"]]
    seconds = sum(fold["seconds"] for fold in folds)
    repeats = run["settings"]["crossval"]["repeats"]
    lines = [
        "# Results on a pipe rig",
        "",
        "Written by `scripts/results.py`; do not edit. The recordings are a student project's "
        "pressurised rig and are not part",
        "of this repository: 23 recordings of 20 s by one recorder on two days (pipes 1 and 3), 36 "
        "of 9 to 23 s by another,",
        "analogue sensor on a third day. Every number is of recordings whose group was held out of "
        "training, of early stopping",
        "and of the threshold. Intervals are 95 %, resampled by recording: there are too few pipes "
        "and days to resample those,",
        "so what another pipe or day brings is not in them.",
        "",
        f"Recipe: `experiment=field`, {repeats} repeat(s) over seeds, {len(folds)} trainings,",
        f"{seconds / 60:.0f} minutes of one thread in all ({seconds / len(folds):.1f} s a fold).",
        "",
        "## Network and baselines, recording AUROC",
        "",
        *table(found),
        "",
        "`recorder-pipe` holds out one pipe after the other among the recordings of the recorder, "
        "and so on;",
        "`-recording` is ten folds of single recordings. `sensor-to-sensor` trains on one sensor "
        "and is tested on the",
        "other, both ways. A trait is turned towards leaks on the training recordings, so that one "
        "that tells nothing may",
        "fall below 0.5; so does a group's share of leaks where single recordings are held out of "
        "it, since the one held",
        "out is missing from the share.",
        "",
        "## Decisions of the network, at the threshold that each fold's validation part chose",
        "",
        *decisions(found),
        "",
        "## What the audit says",
        "",
        *(
            f"- `{name}`: {sentence}"
            for name, result in found.items()
            for sentence in result["audit"]["findings"]
        ),
        "",
        "## Null run: labels shuffled over recordings",
        "",
        *(
            f"- `{name}`: {s}"
            for name, result in null["crossval"].items()
            for s in result["audit"]["findings"]
        ),
        "",
        "## Folds",
        "",
        *each_fold(found),
    ]
    return "\n".join(lines) + "\n"


def table(found: Mapping[str, Any]) -> list[str]:
    """Rows are the network and every baseline, columns the protocols."""
    network = {name: result["audit"]["network"] for name, result in found.items()}
    baselines = {
        name: {row["key"]: row for row in result["audit"]["rows"]} for name, result in found.items()
    }
    rows = dict.fromkeys(key for audit in baselines.values() for key in audit)
    lines = ["| | " + " | ".join(found) + " |", "|---|" + "---|" * len(found)]
    counts = [f"{r['recording']['n'] // len(r['auroc_of_repeats'])}" for r in found.values()]
    lines.append("| recordings | " + " | ".join(counts) + " |")
    shown = (f"**{cell(row)}**" for row in network.values())
    lines.append("| **network** | " + " | ".join(shown) + " |")
    lines += [
        f"| {key.replace('_', ' ')} | "
        + " | ".join(cell(audit.get(key)) for audit in baselines.values())
        + " |"
        for key in rows
    ]
    return lines


def cell(row: Mapping[str, Any] | None) -> str:
    """An AUROC with its interval."""
    if row is None or row["auroc"] is None:
        return "-"
    interval = row["interval"]
    return f"{row['auroc']:.2f}" + (f" ({interval[0]:.2f}–{interval[1]:.2f})" if interval else "")


def decisions(found: Mapping[str, Any]) -> list[str]:
    """F1, recall and false-positive rate of each protocol."""
    lines = [
        "| | F1 | recall | FPR | AUROC of each repeat | mean AUROC within folds |",
        "|---|---|---|---|---|---|",
    ]
    for name, result in found.items():
        shown = [result["recording"][key] for key in ("f1", "recall", "fpr")]
        spans = [result["recording"]["intervals"][key] for key in ("f1", "recall", "fpr")]
        cells = [
            cell({"auroc": value, "interval": span})
            for value, span in zip(shown, spans, strict=True)
        ]
        repeats = ", ".join(f"{value:.2f}" for value in result["auroc_of_repeats"].values())
        within = [fold["auroc"] for fold in result["folds"] if fold["auroc"] is not None]
        mean = f"{sum(within) / len(within):.2f}" if within else "-"
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {repeats} | {mean} |")
    return lines


def each_fold(found: Mapping[str, Any]) -> list[str]:
    """What each fold of the protocols with few groups did."""
    lines = [
        "| protocol | held out | seed | train / val / test | steps | best epoch | threshold | "
        "AUROC |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, result in found.items():
        if name.endswith("-recording"):
            continue
        for fold in result["folds"]:
            counts = " / ".join(str(fold["recordings"][part]) for part in ("train", "val", "test"))
            area = "-" if fold["auroc"] is None else f"{fold['auroc']:.2f}"
            lines.append(
                f"| {name} | {fold['fold']} | {fold['seed']} | {counts} | {fold['steps']} | "
                f"{fold['best_epoch'] + 1} | {fold['threshold']:.2f} | {area} |"
            )
    return lines


if __name__ == "__main__":
    main()
