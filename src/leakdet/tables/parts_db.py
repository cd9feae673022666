"""The list of recordings of a folder of parts, in SQLite, cut into batches.

The files of a listing are sorted and numbered; 256 consecutive numbers are a batch, and each
listing begins a new one. What was published of a batch is kept beside the list: the hash of its
part, to notice later that it was damaged, and the counts of its rows.
"""

import errno
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from json import dumps, loads
from pathlib import Path
from typing import Any

from leakdet.core.errors import InputError
from leakdet.core.files import refuse_pointer
from leakdet.core.locations import absolute_file, parse_location
from leakdet.tables.schema import InputRecording

BATCH_FILES = 256


@dataclass(frozen=True)
class FileBatch:
    """At most 256 recordings, whose sources are absolute, and their paths as they were named."""

    number: int
    recordings: tuple[InputRecording, ...]
    paths: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.recordings)

    def only(self, at: int, error: str = "") -> "FileBatch":
        """The recording at this place alone; `error` says why it cannot be scored."""
        recording = self.recordings[at]
        if error:
            recording = replace(recording, error=error)
        return FileBatch(self.number, (recording,), self.paths[at : at + 1])

    def __str__(self) -> str:
        if len(self) == 1:
            return self.paths[0]
        return f"batch {self.number} ({self.paths[0]} to {self.paths[-1]})"


CACHE_KIB = 32_768
AT_A_TIME = 10_000
SCHEMA = """
CREATE TABLE recordings (
    source BLOB PRIMARY KEY, number INTEGER, path BLOB, columns TEXT, error TEXT
) WITHOUT ROWID;
CREATE INDEX by_number ON recordings (number);
CREATE TABLE listings (
    first INTEGER PRIMARY KEY, files INTEGER, listed_at TEXT, names TEXT, columns TEXT,
    left_out TEXT, complete INTEGER
);
CREATE TABLE parts (number INTEGER PRIMARY KEY, sha256 TEXT, counts TEXT);
"""


@dataclass(frozen=True)
class ListingRecord:
    """One listing: its files have the numbers from `first` on."""

    first: int
    files: int
    listed_at: str
    names: list[str]  # as given, made absolute
    columns: list[str]  # that its recordings bring
    left_out: list[str]  # a sentence for each kind
    complete: bool  # every name gave files, and no sound was left out


class RecordingsDb:
    """The list of a folder of parts, and what is published; for one process at a time."""

    def __init__(self, path: Path, batch_files: int = BATCH_FILES) -> None:
        self._path, self.batch_files = path, batch_files
        is_new = not path.exists()
        with self._errors_explained():
            self._db = sqlite3.connect(path)
            self._db.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            if is_new:
                self._db.executescript(f"BEGIN; {SCHEMA} COMMIT;")
            self.listings  # noqa: B018  a file that is no list of ours is named now

    def close(self) -> None:
        self._db.close()

    @property
    def listings(self) -> list[ListingRecord]:
        rows = self._rows("SELECT * FROM listings ORDER BY first")
        return [
            ListingRecord(
                first, files, at, loads(names), loads(columns), loads(left_out), bool(complete)
            )
            for first, files, at, names, columns, left_out, complete in rows
        ]

    @property
    def files(self) -> int:
        """How many files are listed."""
        return sum(listed.files for listed in self.listings)

    def add(self, recordings: Iterable[InputRecording]) -> tuple[int, int, int]:
        """Add the files that are not listed yet, as further batches, and do not commit.

        Gives their first number, how many they are, and how many came that were listed before; of
        those the first counts, and for their columns the first that tells any.
        """
        (last,) = self._one("SELECT max(number) FROM recordings")
        first = 0 if last is None else (last // self.batch_files + 1) * self.batch_files
        given, count, after = 0, 0, b""

        def db_rows() -> Iterator[tuple[object, ...]]:
            nonlocal given
            for recording in recordings:
                given += 1
                yield _db_row(recording)

        with self._errors_explained():
            self._db.executemany(
                "INSERT INTO recordings VALUES (?, NULL, ?, ?, ?) ON CONFLICT DO UPDATE SET "
                "columns = excluded.columns WHERE columns IS NULL AND number IS NULL",
                db_rows(),
            )
            while unnumbered := self._rows(
                "SELECT source FROM recordings WHERE number IS NULL AND source > ? "
                f"ORDER BY source LIMIT {AT_A_TIME}",
                after,
            ):
                self._db.executemany(
                    "UPDATE recordings SET number = ? WHERE source = ?",
                    ((first + count + at, source) for at, (source,) in enumerate(unnumbered)),
                )
                count += len(unnumbered)
                (after,) = unnumbered[-1]
        return first, count, given - count

    def commit(self, listed: ListingRecord) -> None:
        """Make what was added part of the list; if it is nothing, leave the list as it is."""
        with self._errors_explained(), self._db:
            if listed.files:
                texts = map(dumps, (listed.names, listed.columns, listed.left_out))
                values = (listed.first, listed.files, listed.listed_at, *texts, listed.complete)
                self._db.execute("INSERT INTO listings VALUES (?, ?, ?, ?, ?, ?, ?)", values)

    def rollback(self) -> None:
        """Forget what was added and not committed."""
        self._db.rollback()

    def batches(self) -> Iterator[FileBatch]:
        """Batches without a part, by number. What is recorded meanwhile is not asked for again."""
        for listed in self.listings:
            for first in range(listed.first, listed.first + listed.files, self.batch_files):
                if not self._rows(
                    "SELECT 1 FROM parts WHERE number = ?", first // self.batch_files
                ):
                    yield self._batch(first)

    def _batch(self, first: int) -> FileBatch:
        rows = [
            (os.fsdecode(key).partition("\0")[0], path, columns, error)
            for key, path, columns, error in self._rows(
                "SELECT source, path, columns, error FROM recordings "
                "WHERE number BETWEEN ? AND ? ORDER BY number",
                *(first, first + self.batch_files - 1),
            )
        ]
        return FileBatch(
            first // self.batch_files,
            tuple(
                InputRecording(parse_location(source), loads(columns or "{}"), error)
                for source, _, columns, error in rows
            ),
            tuple(source if path is None else os.fsdecode(path) for source, path, _, _ in rows),
        )

    def scored(self) -> int:
        """How many files are in the parts."""
        count = 0
        for listed in self.listings:
            first, last = (
                listed.first // self.batch_files,
                (listed.first + listed.files - 1) // self.batch_files,
            )
            query = "SELECT count(*), max(number) = ? FROM parts WHERE number BETWEEN ? AND ?"
            ((parts, with_last),) = self._rows(query, last, first, last)
            count += parts * self.batch_files - bool(with_last) * (-listed.files % self.batch_files)
        return count

    def record(self, number: int, sha256: str, counts: dict[str, Any]) -> None:
        """Record that the part of a batch has this hash, and its rows these counts."""
        with self._errors_explained(), self._db:
            values = (number, sha256, dumps(counts))
            self._db.execute("INSERT OR REPLACE INTO parts VALUES (?, ?, ?)", values)

    def forget(self, number: int) -> None:
        """Take back `record`: the batch is to be scored."""
        with self._errors_explained(), self._db:
            self._db.execute("DELETE FROM parts WHERE number = ?", (number,))

    def hashes(self) -> dict[int, str]:
        """The hash of each part by number: a hundred bytes for 256 files."""
        return dict(self._rows("SELECT number, sha256 FROM parts"))

    def counts(self, first: int = 0) -> Iterator[dict[str, Any]]:
        """What was counted in each part from that of the file numbered `first` on."""
        with self._errors_explained(), closing(self._db.cursor()) as cursor:
            rows = cursor.execute(
                "SELECT counts FROM parts WHERE number >= ?", (first // self.batch_files,)
            )
            for (counts,) in rows:
                yield loads(counts)

    def _rows(self, query: str, *values: object) -> list[Any]:
        with self._errors_explained():
            return self._db.execute(query, values).fetchall()

    def _one(self, query: str) -> Any:
        return self._rows(query)[0]

    @contextmanager
    def _errors_explained(self) -> Iterator[None]:
        """Raise what a user can act on instead of an error of SQLite."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code == sqlite3.SQLITE_FULL:
                number = errno.ENOSPC
                raise OSError(number, os.strerror(number), str(self._path)) from error
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
                raise InputError(
                    f"{self._path}: cannot be written ({error}). Close what has it open, and see "
                    "that you may write there."
                ) from error
            refuse_pointer(self._path)
            raise InputError(
                f"{self._path}: the list of recordings is damaged ({error}). Copy it back from an "
                "undamaged copy, or start in another folder."
            ) from error


def _db_row(recording: InputRecording) -> tuple[bytes, bytes | None, Any, str]:
    source = absolute_file(recording.source)
    path = None if source == str(recording.source) else os.fsencode(str(recording.source))
    columns = dumps(dict(recording.columns)) if any(recording.columns.values()) else None
    key = f"{source}\0{recording.span}" if recording.span else source  # each span by itself
    return os.fsencode(key), path, columns, recording.error
