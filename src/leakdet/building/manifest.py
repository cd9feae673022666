"""Sources of `build` that are tables: a CSV manifest with a recording in each row."""

from dataclasses import replace
from pathlib import Path

from leakdet._remote import RemoteFile, is_url
from leakdet._remote_copies import local_copy, told_as
from leakdet.building.sources import (
    SPLIT_NAMES,
    LeftOut,
    Source,
    SourceRecording,
    groups_of_name,
    printable,
)
from leakdet.errors import InputError
from leakdet.storage.reserved_columns import is_reserved
from leakdet.storage.store import SPLITS
from leakdet.storage.table_paths import absence, file_named
from leakdet.storage.table_text import Table, read_table

NO_LABEL = "it has no label"  # of a row that learn counts and build leaves out
READ_COLUMNS = ("path", "label", "split", "weight")


class RowError(Exception):
    """The reason why a row gives no recording."""


def from_manifest(
    path: Path | RemoteFile, by_channel: bool = False, unlabelled: str = ""
) -> Source:
    """List the recordings of a table; rows that give none are left out with their line.

    With `by_channel`, a column `channel` may name the one channel of a file that a row is about.
    Rows without a label get the label `unlabelled`.

    Raises:
        InputError: the table cannot be read, or lacks the columns path and label.
    """
    copy = local_copy(path)
    with told_as(path, copy):
        table = read_table(copy)
    groups = _group_columns(path, table)
    left_out = [LeftOut(f"{path}, line {number}", reason) for number, reason in table.faults]
    recordings = []
    for number, row in table.rows:
        try:
            channel = _parse_channel(row.get("channel", "")) if by_channel else 0
            row["label"] = row["label"] or unlabelled
            recordings.append(replace(_recording(path, row, groups), channel=channel))
        except RowError as error:
            named = f" ({printable(row['path'])})" if row["path"] else ""
            left_out.append(LeftOut(f"{path}, line {number}{named}", str(error)))
    return Source(recordings, left_out, table.remarks)


def _group_columns(path: Path | RemoteFile, table: Table) -> list[str]:
    columns = table.columns
    missing = sorted({"path", "label"} - set(columns))
    if missing:
        raise InputError(
            f"{path}: a manifest needs the columns path and label; {missing} missing in {columns}."
        )
    wrong = sorted({name for name in columns if not name or "/" in name or columns.count(name) > 1})
    if wrong:
        raise InputError(
            f"{path}: columns {wrong} are unnamed, repeated or hold a slash; rename them."
        )
    own = [name for name in columns if name not in READ_COLUMNS and is_reserved(name)]
    if own:
        table.remarks.append(
            f"Columns of {path.name} that make no groups, since leakdet writes such itself: "
            f"{', '.join(own)}."
        )
    return [name for name in columns if name not in (*READ_COLUMNS, *own)]


def _recording(
    manifest: Path | RemoteFile, row: dict[str, str], groups: list[str]
) -> SourceRecording:
    name, label = row["path"], printable(row["label"])
    if not name:
        raise RowError("the path is empty")
    if not label:
        raise RowError(NO_LABEL)
    file = file_named(manifest, name)
    if file is None:
        raise RowError(absence(name))
    split = _parse_split(row.get("split", ""))
    weight = _parse_weight(row.get("weight", ""))
    values = {column: printable(row[column]) for column in groups}
    identity = printable(name if is_url(name) else Path(name).as_posix())
    return SourceRecording(identity, file, label, split, weight, {**groups_of_name(file), **values})


def _parse_split(value: str) -> str | None:
    if value and value.casefold() not in SPLIT_NAMES:
        raise RowError(f"split {value!r} is not one of {', '.join(SPLITS)}")
    return SPLIT_NAMES[value.casefold()] if value else None


def _parse_channel(value: str) -> int:
    if value and not (value.isascii() and value.isdecimal() and int(value)):
        raise RowError(f"channel {value!r} is not a number from 1 on")
    return int(value or 0)


def _parse_weight(value: str) -> float:
    try:
        weight = float(value.replace(",", ".") or 1)
    except ValueError:
        weight = -1.0
    if not 0 <= weight < float("inf"):
        raise RowError(f"weight {value!r} is not a number of at least 0")
    return weight
