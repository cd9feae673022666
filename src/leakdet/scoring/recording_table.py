"""A manifest as a source of predict: a table of recordings, whose columns go on into the rows."""

from collections.abc import Iterator
from pathlib import Path

from leakdet._remote import RemoteFile
from leakdet._remote_copies import local_copy, told_as
from leakdet.errors import InputError, counted
from leakdet.scoring.tally import Tally
from leakdet.storage.reserved_columns import is_reserved
from leakdet.storage.table_paths import absence, file_named
from leakdet.storage.table_text import TableStream
from leakdet.storage.time_text import ALLOWED, iso_text

SUFFIXES = (".csv", ".tsv", ".xlsx", ".xls")  # of workbooks it is said what to do
RECORDED_AT = "recorded_at"


def is_table_name(name: str) -> bool:
    """True of a name, or a glob, that stands for tables of recordings."""
    return name.lower().endswith(SUFFIXES)


class RecordingTable:
    """The recordings of a table with the column path, as a stream; ask for notes after it.

    `columns` are those that go on into rows: all but path and what leakdet writes itself.
    `recorded_at` becomes ISO 8601; what is no time stays as it is.

    Raises:
        InputError: the table cannot be read, lacks the column path, or has unnamed or repeated
            columns.
    """

    def __init__(self, path: Path | RemoteFile) -> None:
        self.path = path
        self._copy = local_copy(path)
        with told_as(path, self._copy):
            self._table = TableStream(self._copy)
        named = self._table.columns
        if named and "path" not in named:
            raise InputError(
                f"{path}: a table of recordings needs the column path, and may have site, "
                f"recorded_at and more; it has {', '.join(named)}."
            )
        wrong = sorted({name for name in named if not name or named.count(name) > 1})
        if wrong:
            raise InputError(f"{path}: columns {wrong} are unnamed or repeated; rename them.")
        self.columns = tuple(name for name in named if not is_reserved(name))
        self.left_out = [name for name in named if is_reserved(name) and name != "path"]
        self.faults, self.unread = Tally(), Tally()

    def __iter__(self) -> Iterator[tuple[Path | RemoteFile, dict[str, str], str]]:
        """File, columns, and why it cannot be read, of each row."""
        self.faults, self.unread = Tally(), Tally()
        for number, row in self._table:
            if isinstance(row, str):
                self.faults.add(f"line {number}: {row}")
            elif not row["path"]:
                self.faults.add(f"line {number}: the path is empty")
            else:
                file = file_named(self.path, row["path"])
                error = "" if file else f"{absence(row['path'])} ({self.path}, line {number})"
                yield file or Path(row["path"]), self._told(row), error

    def _told(self, row: dict[str, str]) -> dict[str, str]:
        told = {name: row[name] for name in self.columns}
        if text := told.get(RECORDED_AT):
            if iso := iso_text(text):
                told[RECORDED_AT] = iso
            else:
                self.unread.add(text)
        return told

    def losses(self) -> list[str]:
        """Sentences on lines that give no recording."""
        if not self.faults.count:
            return []
        return [f"left out {counted(self.faults.count, 'line')} of {self.path}: {self.faults}"]

    def notes(self) -> list[str]:
        """Sentences on how the table was read."""
        notes = list(self._table.remarks)
        if self.left_out:
            notes.append(
                f"columns of {self.path} that do not go on into the rows, since leakdet writes "
                f"such itself: {', '.join(self.left_out)}"
            )
        if self.unread.count:
            notes.append(
                f"{RECORDED_AT} {self.unread} of {self.path} ({self.unread.count} rows) is not "
                f"understood and stays as it is; write times as {ALLOWED}"
            )
        return notes
