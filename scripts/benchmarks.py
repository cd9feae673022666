"""What the scripts of measurements share: timers, turns, sections of docs/benchmarks.md, arguments."""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

REPOSITORY = Path(__file__).resolve().parent.parent
DOCS = REPOSITORY / "docs"
LIBRARIES = ("torch", "lightning", "numpy", "h5py", "soundfile", "soxr", "librosa", "optuna")
HEAD = """# Measurements

Written by `make bench` (the scripts are `scripts/bench_*.py`); the same numbers are in
`benchmarks.json`. Compare ratios: absolute figures are those of the machine that a section names.
"""
Row = dict[str, Any]


@dataclass(frozen=True)
class Section:
    """A section of the page; columns of its table are the keys of `rows`, as they first appear."""

    name: str
    title: str
    rows: Iterable[Row]  # measured while they are iterated
    note: str = ""


def parser(doc: str | None) -> argparse.ArgumentParser:
    """The options of all scripts."""
    command = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument("--dry-run", action="store_true", help="print the rows and write nothing")
    return command


def run(doc: str | None, *sections: Section) -> None:
    """Measure the sections that the command line names, or all."""
    command = parser(doc)
    names = [section.name for section in sections]
    command.add_argument("names", nargs="*", metavar="SECTION", help=", ".join(names))
    given = command.parse_args()
    if unknown := sorted({*given.names} - {*names}):
        command.error(f"unknown: {', '.join(unknown)}; there are {', '.join(names)}")
    for section in sections:
        if section.name in (given.names or names):
            measure(section, given.dry_run)


def measure(section: Section, dry_run: bool = False) -> None:
    """Print the rows as they come, and write the section."""
    rows = []
    for row in section.rows:
        print(", ".join(f"{name}: {shown(value)}" for name, value in row.items()), flush=True)
        rows.append(row)
        place = machine()  # with the cores that the row was measured on
    if rows and not dry_run:
        _write(section, rows, place)


def kept(path: Path, work: Callable[[], Any]) -> Any:
    """What `work` returns, as JSON reads it; kept at `path`, and not done again."""
    if not path.exists():
        result = work()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result), encoding="utf-8")
        print(path.stem, flush=True)
    return json.loads(path.read_text(encoding="utf-8"))


# ----------------------------------------------------------------- timers


def time_s(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of a call; of all threads of this process by `time.process_time`."""
    started = clock()
    work()
    return clock() - started


def median_s(work: Callable[[], object], runs: int) -> float:
    """Median time of so many runs, in seconds."""
    return float(np.median([time_s(work) for _ in range(runs)]))


def in_turn(
    works: Mapping[str, Callable[[], Any]], rounds: int, warm: int = 0
) -> dict[str, np.ndarray]:
    """The numbers that each work returns in each round, every other round from last to first.

    So many `warm` rounds go before them and are left out.
    """
    orders = list(works), list(works)[::-1]
    rows = [{name: works[name]() for name in orders[n % 2]} for n in range(warm + rounds)]
    return {name: np.array([row[name] for row in rows[warm:]]) for name in works}


def excess(ours: np.ndarray, plain: np.ndarray) -> tuple[float, float, float]:
    """Quartiles of the paired ratios less 1: low, median, high."""
    low, middle, high = np.quantile(ours / plain - 1, (0.25, 0.5, 0.75), method="weibull").tolist()
    return low, middle, high


# Not getrusage: it gives the peak of the parent process where that is larger.
AT_EXIT = """
import atexit, os
def _tell():
    peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(f"\\n{sum(os.times()[:4])} {int(peak.split()[1]) / 1024}", flush=True)
atexit.register(_tell)
"""


class Measured(NamedTuple):
    """What a process took, from its start to its end."""

    seconds: float
    processor_s: float
    peak_mib: float


def measured(code: str, words: Sequence[str | Path] = (), folder: Path | None = None) -> Measured:
    """Run Python code in a process of its own, with these words as `sys.argv[1:]`."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", AT_EXIT + code, *map(str, words)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY / "src")},
        capture_output=True,
        text=True,
    )
    seconds = time.perf_counter() - began
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: failed\n{done.stderr}")
    processor_s, peak_mib = map(float, done.stdout.split()[-2:])
    return Measured(seconds, processor_s, peak_mib)


# ----------------------------------------------------------------- the page


def _write(section: Section, rows: Sequence[Row], place: Mapping[str, Any]) -> None:
    """Replace the section on the page and in the JSON file."""
    path = DOCS / "benchmarks.json"
    sections = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    sections[section.name] = {
        "title": section.title,
        "note": section.note,
        "machine": place,
        "measured_at": datetime.now(UTC).isoformat(timespec="minutes"),
        "rows": rows,
    }
    ordered = {key: sections[key] for key in sorted(sections)}
    path.write_text(json.dumps(ordered, indent=2) + "\n", encoding="utf-8")
    page = "\n".join([HEAD, *(_rendered(section) for section in ordered.values())])
    (DOCS / "benchmarks.md").write_text(page, encoding="utf-8")


def machine() -> dict[str, Any]:
    """Processor, cores, memory, accelerator and libraries; never a name or a path."""
    described: dict[str, Any] = {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "libraries": {library: found for library in LIBRARIES if (found := _version(library))},
    }
    accelerator = _accelerator()
    return {**described, "accelerator": accelerator} if accelerator else described


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def _accelerator() -> str | None:
    import torch

    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else None


def _rendered(section: Mapping[str, Any]) -> str:
    rows = section["rows"]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    table = [_line(columns), _line(["---"] * len(columns))]
    table += [_line([shown(row.get(column, "")) for column in columns]) for row in rows]
    place = section["machine"]
    where = [place["processor"], f"{place['cores']} cores", f"{place['memory_gib']} GiB"]
    where += [place["accelerator"]] if "accelerator" in place else []
    where += [
        f"Python {place['python']}",
        *(f"{name} {found}" for name, found in place["libraries"].items()),
    ]
    parts = [f"## {section['title']}", section["note"], "\n".join(table), f"*{', '.join(where)}*"]
    return "\n\n".join(part for part in parts if part) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def shown(value: object) -> str:
    """A cell: three significant digits of a number, thousands set apart."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
