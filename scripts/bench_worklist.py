"""Measure the work list of a network's month: `python scripts/bench_worklist.py`.

Writes its section of docs/benchmarks.md. Rows are made up, a CSV for each night;
each step runs in a process of its own, whose peak memory is told.
"""

import csv
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import write_section
from synthetic_nights import Story, make_network, network_rows

SITES, NIGHTS = 20_000, 30
STORY = Story(
    sites=SITES, nights=NIGHTS, recordings=1, bursts=150, growing=50, old=50, pumps=1000, dying=200
)
READ = "from leakdet.parts.part_rows import each_row\nfrom pathlib import Path\nimport sys\n"
STEPS = {
    "reading the rows alone": [
        "-c",
        READ + "for name in sys.argv[1:]:\n    for row in each_row(Path(name)): pass",
    ],
    "rows to ranked sites": [
        "-c",
        READ + "from leakdet.sites.make_worklist import make_worklist\n"
        "make_worklist(row for name in sys.argv[1:] for row in each_row(Path(name)))",
    ],
    "leakdet worklist, table (.csv)": ["-m", "leakdet", "worklist", "--out", "list.csv"],
    "leakdet worklist, page (.html) and all beside it": ["-m", "leakdet", "worklist"],
}


def write_nights(folder: Path) -> list[str]:
    """A CSV for each night; the result has their names."""
    network = make_network(STORY, 0)
    names = []
    for night in range(NIGHTS):
        scores, levels = network.scores[:, night : night + 1], network.levels[:, night : night + 1]
        name = f"night-{night + 1:02}.csv"
        with (folder / name).open("w", newline="", encoding="utf-8") as file:
            writer = None
            for number, row in enumerate(network_rows(scores, levels, first_night=night)):
                row |= _more(number)
                if writer is None:
                    writer = csv.DictWriter(file, row)
                    writer.writeheader()
                writer.writerow(row)
        names.append(name)
    return names


def _more(number: int) -> dict[str, Any]:
    """Columns that rows have besides those of the made-up network."""
    return {
        "lat": f"{51.0 + number % 141 / 1000:.5f}",
        "lon": f"{number // 141 / 1000:.5f}",
        "logger": f"L{number:05}",
        "reason": "",
        "threshold": 0.5,
        "windows": 19,
        "leak_windows": 3,
        "duration_s": 10.0,
        "flags": "",
        "familiarity": 0.41,
        "error": "",
        "p10_prob": 0.1,
        "mains_hum_db": 3.2,
    }


def measured(arguments: list[str], folder: Path) -> dict[str, float]:
    """Seconds, seconds of the processor, and peak memory in MB of a process of Python."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    told = process.stderr.read() if process.stderr else ""
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(told)
    return {
        "seconds": time.perf_counter() - started,
        "of the processor": usage.ru_utime + usage.ru_stime,
        "peak MB": usage.ru_maxrss / 1e3,
    }


def main() -> None:
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        nights = write_nights(Path(name))
        for what, arguments in STEPS.items():
            rows.append({"what": what} | measured([*arguments, *nights], Path(name)))
            print(rows[-1])
    note = (
        f"{NIGHTS} nights of {SITES:,} sites, {NIGHTS * SITES:,} made-up rows of 21 columns in "
        f"{NIGHTS} CSV files, without the model that scored them. Each step is a process of its "
        "own, its start included."
    )
    write_section("worklist", "The work list of a month", rows, note)


if __name__ == "__main__":
    main()
