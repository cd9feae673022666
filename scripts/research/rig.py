"""What the scripts on a pipe rig share: its recordings, commands, finished work, docs/results.md.

The recordings are not part of this repository: they are expected in ../shared/data/rig, or where
RIG points. The scripts run in a checkout, with its other scripts:

    PYTHONPATH=scripts python scripts/research/results.py
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import benchmarks
from benchmarks import DOCS, REPOSITORY

PAGE = DOCS / "results.md"
RIG = Path(os.environ.get("RIG", REPOSITORY.parent / "shared" / "data" / "rig"))
PARTS = ("results", "foreign_sound", "negatives", "paper", "learning", "incremental")  # of the page

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


def parser(doc: str | None, work: str) -> argparse.ArgumentParser:
    """The options of all scripts, among them a folder in which what is finished is kept."""
    command = benchmarks.parser(doc)
    about = "stores and finished work, which is not done again (default: %(default)s)"
    command.add_argument("--work", type=Path, default=Path("runs", work), help=about)
    return command


def build(store: Path, *words: str, source: Path = RIG / "recordings.csv") -> Path:
    """A store of the rig's recordings, or of those of a table."""
    if not store.exists():
        leakdet("build", f"source={source}", f"out={store}", *words)
    return store


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


def write_part(name: str, text: str, dry_run: bool = False) -> None:
    """Print one part of the page; replace it and leave the others, unless it is a trial."""
    print(text)
    if dry_run:
        return
    marks = re.split(r"<!-- (\w+) -->\n", PAGE.read_text(encoding="utf-8") if PAGE.exists() else "")
    parts = dict(zip(marks[1::2], marks[2::2], strict=True)) | {name: f"\n{text.strip()}\n\n"}
    page = "".join(f"<!-- {part} -->\n{parts[part]}" for part in PARTS if part in parts)
    PAGE.write_text(page.rstrip("\n") + "\n", encoding="utf-8")


def table(heads: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    return "\n".join([_line(heads), "|---" * len(heads) + "|", *map(_line, rows)])


def _line(cells: Sequence[object]) -> str:
    return "|" + "|".join(f" {cell} " if cell != "" else " " for cell in cells) + "|"


def cell(value: float | None, interval: Sequence[float] | None = None) -> str:
    """A value with its interval."""
    if value is None:
        return "-"
    return f"{value:.2f}" + (f" ({interval[0]:.2f}–{interval[1]:.2f})" if interval else "")


def interval_cell(metrics: Mapping[str, Any], key: str) -> str:
    """A metric of a table of metrics.json, with its interval."""
    return cell(metrics[key], metrics["intervals"][key])


def values(rows: Iterable[Mapping[str, Any]], key: str) -> np.ndarray:
    return np.array([row[key] for row in rows], float)
