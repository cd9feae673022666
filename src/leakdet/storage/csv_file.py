"""Writes tables as CSV files, atomically."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from leakdet.storage.atomic import whole_file


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
