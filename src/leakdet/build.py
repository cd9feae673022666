"""`python -m leakdet.build source=… out=…`: from audio, or from a predecessor's store, to a store."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from leakdet._door import Run, open_door
from leakdet._exit_codes import DONE, PARTLY
from leakdet.config import BuildConfig

if TYPE_CHECKING:
    from leakdet.building.build_report import BuildReport

SHOWN = 20


def build(config: BuildConfig, run: Run) -> int:
    from leakdet.building.ailh_conversion import convert_store
    from leakdet.building.builder import build_store
    from leakdet.building.shard_merge import merge_shards
    from leakdet.storage.ailh_store import is_legacy

    if config.shard == "merge":
        report = merge_shards(config)
    else:
        report = (convert_store if is_legacy(Path(config.source)) else build_store)(config)
    show(report)
    return PARTLY if report.left_out else DONE


def show(report: "BuildReport") -> None:
    """The closing table: recordings, windows and hours per split and label, groups, flags, and what was left out and why."""
    from rich.console import Console
    from rich.table import Table

    console = Console(soft_wrap=True, highlight=False)
    table = Table(title=f"{report.out}", title_justify="left")
    for column in ("split", "label", "recordings", "windows", "hours"):
        table.add_column(column, justify="left" if column in ("split", "label") else "right")
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0, 0, 0.0])
    for row in report.rows:
        total = sums[(row["split"], row["label"])]
        total[0] += 1
        total[1] += row["windows"]
        total[2] += row["duration_s"] / 3600
    for (split, label), (recordings, windows, hours) in sorted(
        sums.items(), key=lambda item: _order(item[0])
    ):
        leak = " (leak)" if label == report.leak_label else ""
        table.add_row(split, label + leak, f"{recordings:.0f}", f"{windows:.0f}", f"{hours:.2f}")
    console.print(table)
    for column, count in _group_counts(report).items():
        console.print(f"group {column}: {count}")
    flags = Counter(flag for row in report.rows for flag in row["flags"].split(",") if flag)
    if flags:
        console.print(
            "flags: " + ", ".join(f"{count} {flag}" for flag, count in flags.most_common())
        )
    if report.surrogates:
        console.print(
            f"surrogates of leak recordings of train, for training alone: {report.surrogates}"
        )
    for remark in report.remarks:
        console.print(remark)
    if report.left_out:
        console.print(f"Left out: {len(report.left_out)} (all of them are listed in build.json)")
        for item in report.left_out[:SHOWN]:
            console.print(f"  {item.path}: {item.reason}", markup=False)


def _order(key: tuple[str, str]) -> tuple[int, str]:
    return ("train", "val", "test").index(key[0]), key[1]


def _group_counts(report: "BuildReport") -> dict[str, str]:
    from leakdet.building.sources import RESERVED

    columns = dict.fromkeys(
        column for row in report.rows for column in row if column not in RESERVED
    )
    counts = {}
    for column in columns:
        where = {
            split: {row.get(column, "") for row in report.rows if row["split"] == split}
            for split in ("train", "val", "test")
        }
        counts[column] = ", ".join(
            f"{len(values)} in {split}" for split, values in where.items() if values
        )
    return counts


def main() -> None:
    open_door("build", BuildConfig, build, paths=("source", "out"))


if __name__ == "__main__":
    main()
