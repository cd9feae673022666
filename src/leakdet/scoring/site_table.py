"""The table that tells the site of recordings and when they were made: `predict --sites`."""

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from leakdet.errors import InputError
from leakdet.storage.csv_file import read_csv

REMEDY = "Save it as CSV in UTF-8, its columns separated by commas."


@dataclass(frozen=True)
class SitePlace:
    """Site of a recording, and the time at which it was made; NaT where that is unknown."""

    site: str
    recorded_at: np.datetime64


def read_site_table(path: Path) -> dict[str, SitePlace]:
    """Place of each recording by its absolute path, from the columns path, site and recorded_at.

    A relative path is looked for beside the table, then in the current folder. `recorded_at` may
    be missing or blank; a time with an offset is taken to UTC.

    Raises:
        InputError: the table cannot be read, lacks a column, or holds a time that is none.
    """
    rows = read_csv(path, "a table of sites", REMEDY)
    columns = list(rows[0]) if rows else []
    if missing := sorted({"path", "site"} - set(columns)):
        raise InputError(
            f"{path}: a table of sites needs the columns path and site, and recorded_at where it "
            f"is known; {' and '.join(missing)} missing in {columns}. {REMEDY}"
        )
    places = {}
    for line, row in enumerate(rows, 2):
        when = _moment(path, line, row.get("recorded_at", "").strip())
        places[_file(path, row["path"])] = SitePlace(row["site"].strip(), when)
    return places


def _file(table: Path, name: str) -> str:
    beside = table.parent / name
    return os.path.abspath(beside if beside.exists() else name)  # noqa: PTH100  links stay


def _moment(path: Path, line: int, text: str) -> np.datetime64:
    if not text:
        return np.datetime64("NaT", "s")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InputError(
            f"{path}, line {line}: recorded_at {text!r} is no time; allowed are times as "
            "2026-05-17T14:30, with or without an offset, dates as 2026-05-17, or nothing."
        ) from error
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return np.datetime64(moment, "s")
