"""The table that tells the site of recordings and when they were made: `predict --sites`."""

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from leakdet._messages import LOG
from leakdet.errors import InputError
from leakdet.storage.table_text import read_table


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
    table = read_table(path)
    if missing := sorted({"path", "site"} - set(table.columns)):
        raise InputError(
            f"{path}: a table of sites needs the columns path and site, and recorded_at where it "
            f"is known; {' and '.join(missing)} missing in {table.columns}."
        )
    for line, fault in table.faults:
        raise InputError(f"{path}, line {line}: {fault}; mend that line.")
    if not table.rows:
        raise InputError(f"{path}: a table of sites without a row; list recordings in it.")
    for remark in table.remarks:
        LOG.warning(remark)
    places = {}
    for line, row in table.rows:
        when = _moment(path, line, row.get("recorded_at", ""))
        places[_file(path, row["path"])] = SitePlace(row["site"], when)
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
