"""Cross-validate each network on a pipe rig: its table in docs/benchmarks.md."""

import statistics
from collections.abc import Iterator
from pathlib import Path

from bench_networks import NETWORKS
from benchmarks import Row, Section, measure
from results import HARD4
from rig import PROTOCOLS, build, cross_validate, interval_cell, parser


def rows(repeats: int, work: Path) -> Iterator[Row]:
    protocols = {name: PROTOCOLS[name] for name in HARD4}
    store = build(work / "rig-store")
    for network in NETWORKS:
        words = (protocols, repeats, f"network={network}")
        metrics = cross_validate(store, work / f"rig-{network}", 2, *words)["crossval"]
        recording = {name: metrics[name]["recording"] for name in protocols}
        yield {
            "network": network,
            **{name: interval_cell(table, "auroc") for name, table in recording.items()},
            "mean AUROC": statistics.mean(table["auroc"] for table in recording.values()),
            "mean F1": statistics.mean(table["f1"] for table in recording.values()),
        }


def main() -> None:
    command = parser(__doc__, "networks")
    command.add_argument("--repeats", type=int, default=1, help="seeds on the rig")
    given = command.parse_args()
    note = f"""Recording AUROC of held-out pipes, days and positions with 95 % intervals over recordings
(scripts/research/results.py says what the recordings are); {given.repeats} seed(s). No network or setting was
chosen on them."""
    of_networks = rows(given.repeats, given.work)
    measure(Section("networks_rig", "The networks on a pipe rig", of_networks, note), given.dry_run)


if __name__ == "__main__":
    main()
