"""Reads and writes leakdet's own tables, CSV files."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from leakdet.storage.atomic import whole_file
from leakdet.storage.readable import understood


def read_csv(path: Path, what: str, remedy: str = "") -> list[dict[str, str]]:
    """The rows of a table that `write_csv` wrote; `what` names its kind.

    Raises:
        InputError: missing, unreadable, or a row has more or fewer values than there are columns.
    """
    with (
        understood(path, what, remedy),
        path.open(newline="", encoding="utf-8", errors="surrogateescape") as file,
    ):
        reader = csv.DictReader(file, strict=True)
        rows: list[dict[str, str]] = []
        for row in reader:
            if None in row or None in row.values():
                raise ValueError(f"line {reader.line_num} has not the columns of the first")
            rows.append(row)
    return rows


def write_csv(
    path: Path, rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None
) -> None:
    """Write rows under `columns`; None: under their keys, in the order of first appearance.

    A row that lacks a column has a blank there. Names of files may hold any bytes.
    """
    if columns is None:
        rows = list(rows)
        columns = list(dict.fromkeys(name for row in rows for name in row))
    with (
        whole_file(path) as partial,
        partial.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file,
    ):
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)
