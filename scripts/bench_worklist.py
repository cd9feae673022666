"""Measure the work list of a network's month: made-up rows, a CSV for each night."""

import csv
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import Row, Section, measured, run
from synthetic_nights import Story, make_network, network_rows

SITES, NIGHTS = 20_000, 30
STORY = Story(
    sites=SITES, nights=NIGHTS, recordings=1, bursts=150, growing=50, old=50, pumps=1000, dying=200
)
NOTE = (
    f"{NIGHTS} nights of {SITES:,} sites, {NIGHTS * SITES:,} made-up rows of 21 columns in "
    f"{NIGHTS} CSV files, without the model that scored them. Each step is a process of its "
    "own, its start included."
)
READ = """
from pathlib import Path
import sys
from leakdet.tables.read import each_part
parts = (part for name in sys.argv[1:] for part in each_part(Path(name)))
"""
RANK = """
from leakdet.sites.worklist import make_worklist
from leakdet.sites.rows import read_blocks
make_worklist(read_blocks(parts))
"""
WORKLIST = """
import sys
from leakdet.worklist import main
sys.exit(main(sys.argv[1:]))
"""
STEPS: dict[str, tuple[str, Sequence[str]]] = {
    "reading the rows alone": (READ + "for part in parts: pass", ()),
    "rows to ranked sites": (READ + RANK, ()),
    "leakdet worklist, table (.csv)": (WORKLIST, ("--out", "list.csv")),
    "leakdet worklist, page (.html) and all beside it": (WORKLIST, ()),
}


def write_nights(folder: Path) -> list[str]:
    """A CSV for each night; the result has their names."""
    network = make_network(STORY, 0)
    names = [f"night-{night + 1:02}.csv" for night in range(NIGHTS)]
    for night, name in enumerate(names):
        scores, levels = network.scores[:, night : night + 1], network.levels[:, night : night + 1]
        made = network_rows(scores, levels, first_night=night)
        rows = [row | _more(number) for number, row in enumerate(made)]
        with (folder / name).open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
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


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name:
        nights = write_nights(Path(name))
        for what, (code, words) in STEPS.items():
            took = measured(code, [*words, *nights], Path(name))
            row = {"what": what, "seconds": took.seconds, "of the processor": took.processor_s}
            yield row | {"peak MiB": took.peak_mib}


if __name__ == "__main__":
    run(__doc__, Section("worklist", "The work list of a month", rows(), NOTE))
