"""Cross-validate the default recipe on a pipe rig and write its part of docs/results.md.

The recordings are not part of this repository: they are expected in ../shared/data/rig, or where
RIG points. Finished folds are kept, so the script can be stopped and started at any time.

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

from results_page import write_part
from results_tables import page

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
