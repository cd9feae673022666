"""Kills `predict --parts` by SIGKILL at ten moments, and workers of a cluster at ten more.

    python scripts/kills_parts.py                                 # all three kinds
    python scripts/kills_parts.py --kinds driver --at 3,4         # the fourth and fifth moment

Each start goes on from what the last one left. In the end every file must be in the parts once, no
part written twice, and no process left. `driver` kills itself at exact points of its work; `worker`
and `both` kill a worker, or the driver of a cluster, whenever one part more is there.
"""

import argparse
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from bench_model_file import write_model
from bench_parts import link
from kills import left_processes, start
from leakdet.tables.read import each_part
from stores import write_sounds

KINDS = ("driver", "worker", "both")
# the function at whose so-manieth call, before or after it, the driver kills itself
MOMENTS = (
    ("tables.parts_db.RecordingsDb.add", 1, "after"),  # listed, and not committed
    ("tables.parts_db.RecordingsDb.commit", 1, "after"),
    ("scoring.parts.PartsFolder.write_facts", 1, "after"),
    ("scoring.parts._rows_of", 9, "before"),  # in the middle of a batch
    ("tables.parts_db.RecordingsDb.record", 1, "after"),  # before the part has its name
    ("scoring.parts.PartsFolder.publish", 2, "after"),
    ("tables.parts_db.RecordingsDb.record", 2, "before"),  # the file is written
    ("scoring.parts.PartsFolder.publish", 1, "before"),
    ("scoring.parts.PartsFolder.repair", 1, "after"),
    ("scoring.parts._finish", 1, "before"),  # all are scored, and nothing says so
)
KILLS = len(MOMENTS)
BATCH = 8  # files
FILES, CLUSTER_FILES = 70, 6000
LIMIT_S = 300


def hooked(name: str, count: int, when: str) -> None:
    """Run predict, which kills itself at a moment."""
    from unittest import mock

    from leakdet.predict import main

    target, left = f"leakdet.{name}", [count]
    work: Callable[..., Any] = pkgutil.resolve_name(target)

    def killing(*arguments: Any, **named: Any) -> Any:
        left[0] -= 1
        if not left[0] and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = work(*arguments, **named)
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    with (
        mock.patch(target, killing),
        mock.patch("leakdet.scoring.parts.BATCH_FILES", BATCH),
    ):
        sys.exit(main(sys.argv[3:]))


def start_predict(
    words: list[str], moment: tuple[str, int, str] | None = None
) -> "subprocess.Popen[bytes]":
    """Start predict in this folder; with a moment, one that kills itself then."""
    child = (
        [__file__, "--child", ":".join(map(str, moment))] if moment else ["-m", "leakdet.predict"]
    )
    return start([*child, *words], Path.cwd())


def parts_of(folder: Path) -> dict[str, tuple[int, int]]:
    """Each part under its name, and when which file was written."""
    return {
        path.name: (path.stat().st_mtime_ns, path.stat().st_ino) for path in folder.glob("part-*")
    }


def faults_of(folder: Path, files: int, before: dict[str, tuple[int, int]]) -> list[str]:
    """What is wrong with the parts of so many files: all must be there if `files` is not 0."""
    faults = []
    if gone := before.items() - parts_of(folder).items():
        faults.append(f"{len(gone)} parts written again or lost")
    paths = Counter(path for part in each_part(folder) for path in part["path"]) if before else {}
    if twice := sum(count > 1 for count in paths.values()):
        faults.append(f"{twice} files twice")
    if files and len(paths) != files:
        faults.append(f"{files - len(paths)} of {files} files lost")
    return faults


def kill_driver(words: list[str], folder: Path, numbers: list[int]) -> list[str]:
    """Kill the driver at exact moments, one start after the other."""
    faults: list[str] = []
    for moment in (MOMENTS[number] for number in numbers):
        before = parts_of(folder)
        process = start_predict(words, moment)
        if process.wait(LIMIT_S) != -signal.SIGKILL:
            faults.append(f"{moment}: not reached")
        faults += faults_of(folder, 0, before)
    return faults


def workers_of(driver: int) -> list[psutil.Process]:
    found = psutil.Process(driver).children(recursive=True)
    return [process for process in found if "spawn_main" in " ".join(process.cmdline())]


def kill_often(words: list[str], folder: Path, workers: bool) -> list[str]:
    """Kill a worker, or the driver, each time when parts have come since the last kill."""
    faults: list[str] = []
    process, killed, known = start_predict(words), 0, 0
    until = time.monotonic() + LIMIT_S
    while killed < KILLS and time.monotonic() < until and process.poll() is None:
        there = len(parts_of(folder))
        if there <= known or (workers and not (found := workers_of(process.pid))):
            time.sleep(0.01)
            continue
        known, killed = there, killed + 1
        if workers:
            found[killed % len(found)].kill()
            continue
        before = parts_of(folder)
        process.kill()
        process.wait()
        if left := left_processes(process.pid):
            faults.append(f"{len(left)} processes left")
        faults += faults_of(folder, 0, before)
        process, known = start_predict(words), len(parts_of(folder))
    if killed < KILLS:
        faults.append(f"only {killed} of {KILLS} kills")
    if process.wait(LIMIT_S):
        faults.append(f"code {process.returncode}")
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--at", help="numbers of the moments of `driver`, from 0 (default: all)")
    given, bad = parser.parse_args(), 0
    numbers = [int(number) for number in given.at.split(",")] if given.at else [*range(KILLS)]
    for kind in given.kinds.split(","):
        with tempfile.TemporaryDirectory(prefix="kills") as name:
            os.chdir(name)
            files = FILES if kind == "driver" else CLUSTER_FILES
            write_model(Path("model.safetensors"), 100)
            link(write_sounds(Path("sounds").absolute(), [1.25]), Path("audio"), files)
            words, folder = ["model.safetensors", "audio", "--parts", "parts"], Path("parts")
            if kind == "driver":
                faults = kill_driver(words, folder, numbers)
            else:
                words += ["--cluster", "local:2"]
                faults = kill_often(words, folder, workers=kind == "worker")
            last = start_predict(words)
            if last.wait(LIMIT_S):
                faults.append(f"the last start: code {last.returncode}")
            faults += left_processes(last.pid) + faults_of(folder, files, parts_of(folder))
            if "Traceback" in (printed := Path("printed.txt").read_text()):
                faults.append(f"traceback: {printed[:3000]}")
            bad += bool(faults)
            print(f"parts {kind:<9} {'; '.join(faults) or 'held'}", flush=True)
            os.chdir("/")
    return 1 if bad else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        at, count_of, when_of = sys.argv[2].split(":")
        hooked(at, int(count_of), when_of)
    else:
        sys.exit(main())
