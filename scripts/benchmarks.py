"""The page of measurements: each script merges its section and renders docs/benchmarks.md."""

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

REPOSITORY = Path(__file__).resolve().parent.parent
DOCS = REPOSITORY / "docs"
LIBRARIES = ("torch", "lightning", "numpy", "h5py", "soundfile", "soxr", "librosa", "optuna")
HEAD = """# Measurements

Written by `make bench` (the scripts are `scripts/bench_*.py`); the same numbers are in
`benchmarks.json`. Compare ratios: absolute figures are those of the machine that a section names.
"""


def run_sections(sections: Mapping[str, Callable[[], None]]) -> None:
    """Those that the command line names, or all."""
    for name in sys.argv[1:] or sections:
        sections[name]()


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


def median_s(work: Callable[[], object], runs: int) -> float:
    """Median time of so many runs, in seconds."""
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def write_section(name: str, title: str, rows: Sequence[Mapping[str, Any]], note: str = "") -> None:
    """Replace the section `name` on the page and in the JSON file.

    `rows` become a table whose columns are their keys, in the order in which they first appear.
    """
    path = DOCS / "benchmarks.json"
    sections = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    sections[name] = {
        "title": title,
        "note": note,
        "machine": machine(),
        "measured_at": datetime.now(UTC).isoformat(timespec="minutes"),
        "rows": [dict(row) for row in rows],
    }
    DOCS.mkdir(exist_ok=True)
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
