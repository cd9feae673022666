"""The text that a build prints: counts by split and label, shared groups, flags, files left out."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from leakdet.building.build_report import BuildReport
from leakdet.errors import counted
from leakdet.storage.reserved_columns import is_reserved
from leakdet.storage.shared_groups import values_sentence
from leakdet.storage.store import SPLITS

SHOWN = 20  # recordings left out that are named; build.json names all


def table_rows(report: BuildReport) -> list[tuple[str, str, str, str, str]]:
    """Split, label, recordings, windows and hours, in the order of the splits."""
    rows_of: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in report.rows:
        rows_of[row["split"], row["label"]].append(row)
    table = []
    for split, label in sorted(rows_of, key=lambda key: (SPLITS.index(key[0]), key[1])):
        rows = rows_of[split, label]
        windows, hours = sum(r["windows"] for r in rows), sum(r["duration_s"] for r in rows) / 3600
        leak = " (leak)" if label in report.leak_labels else ""
        table.append((split, label + leak, f"{len(rows)}", f"{windows}", f"{hours:.2f}"))
    return table


def notes(report: BuildReport) -> Iterator[str]:
    """The lines below the table."""
    for column in dict.fromkeys(name for row in report.rows for name in row):
        if not is_reserved(column):
            yield group_sentence(column, report.rows)
    flags = Counter(flag for row in report.rows for flag in row["flags"].split(",") if flag)
    if flags:
        yield "flags: " + ", ".join(f"{count} {flag}" for flag, count in flags.most_common())
    if short := flags["short"]:
        many = f"{short} recordings are shorter than a window: each is"
        yield (
            f"{many if short > 1 else '1 recording is shorter than a window: it is'} stored, "
            "trained on and scored as one window of its repeated sound, while predict leaves such "
            "recordings undecided"
        )
    if report.dead_windows:
        yield (
            f"{counted(report.dead_windows, 'window')} without sound (silent, stuck or dropouts), "
            "neither trained on nor scored"
        )
    if report.surrogates:
        yield f"surrogates of the leaks in train, used in training only: {report.surrogates}"
    yield from report.remarks
    if report.left_out:
        yield f"Left out: {len(report.left_out)} (build.json lists all of them)"
        yield from (f"  {item.path}: {item.reason}" for item in report.left_out[:SHOWN])


def group_sentence(column: str, rows: Sequence[dict[str, Any]]) -> str:
    """A sentence on the values of a group column, and those that train shares with other splits."""
    values = {
        split: {row[column] for row in rows if row["split"] == split and row.get(column)}
        for split in SPLITS
    }
    return values_sentence(column, values)
