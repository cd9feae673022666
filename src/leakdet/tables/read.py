"""Reads tables as spreadsheets and leakdet write them, the files they name and their times."""

import codecs
import csv
import os
import posixpath
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from itertools import chain
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np

from leakdet.core.errors import InputError, counted
from leakdet.core.files import understood, whole_file
from leakdet.core.locations import Location, RemoteFile, is_url, parse_location

# of recordings.csv, of the rows of predict, and of tables of recordings to confirm
_RESERVED = frozenset(
    "recording_id path split label weight windows live_windows duration_s source_rate_hz rms_dbfs "
    "dc_offset clipped_fraction flags content_sha256 mel_crc32 mains_hum_50_db mains_hum_60_db "
    "surrogate_of decision reason leak_prob threshold leak_windows familiarity model error class "
    "channel source_file p10_prob quiet_level_dbfs mains_hum_db why_suggested timeline".split()
)


def is_reserved(column: str) -> bool:
    """True of a column that makes no group of recordings, and that no table of them can add."""
    return column in _RESERVED or column.startswith("prob_")


def read_csv(path: Path, what: str, remedy: str = "") -> list[dict[str, str]]:
    """The rows of a table that `write_csv` wrote; `what` names its kind."""
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


WORKBOOKS = {
    b"PK\x03\x04": "an Excel workbook (.xlsx)",
    b"\xd0\xcf\x11\xe0": "an Excel file (.xls)",
}
BYTE_ORDER_MARKS = {  # those of UTF-32 begin as those of UTF-16 do
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
UNMARKED = {  # where the first four bytes of Latin text are zeros
    bytes([1, 0, 0, 0]): "utf-32-le",
    bytes([0, 0, 0, 1]): "utf-32-be",
    bytes([1, 0]): "utf-16-le",
    bytes([0, 1]): "utf-16-be",
}


@dataclass
class Table:
    """Columns, rows with the number of their first line, and what is wrong with other rows.

    Every row has a field for each column, without blanks around it.
    """

    columns: list[str] = field(default_factory=list)
    rows: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    faults: list[tuple[int, str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def read_table(path: Path) -> Table:
    """Read a CSV file whole, as `TableStream` does."""
    stream = TableStream(path)
    table = Table(stream.columns, remarks=stream.remarks)
    for number, row in stream:
        if isinstance(row, str):
            table.faults.append((number, row))
        else:
            table.rows.append((number, row))
    return table


class TableStream:
    """A CSV file of UTF-8, -16, -32 or Windows-1252, delimited by commas, semicolons or tabs.

    Iterate for its rows, as often as needed, in bounded memory: the number of a line, and its
    fields by column, or a text on what is wrong with it. A first line `sep=;` names the delimiter;
    blank lines are skipped.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.remarks: list[str] = []
        try:
            if not stat.S_ISREG(path.stat().st_mode):  # a pipe can be read once only
                raise InputError(f"{path}: this is no file. Write the table to one, and name that.")
            self._encoding = _encoding_of(path, self.remarks)
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror}).") from error
        headings = (fields for _, fields in self._records() if not isinstance(fields, str))
        first = next((fields for fields in headings if any(fields)), [])
        self.columns = [normalize("NFC", name) for name in _without_blank_end(first, 0)]

    def __iter__(self) -> Iterator[tuple[int, dict[str, str] | str]]:
        width, is_heading = len(self.columns), True
        for number, fields in self._records():
            if isinstance(fields, str):
                yield number, fields
            elif is_heading:
                is_heading = not any(fields)
            # spreadsheets write the columns that were touched and left blank, too
            elif any(fields := _without_blank_end(fields, width)):
                whole = len(fields) == width
                row = dict(zip(self.columns, fields, strict=True)) if whole else None
                yield number, row or f"it has {counted(len(fields), 'field')}, not {width}"

    def _records(self) -> Iterator[tuple[int, list[str] | str]]:
        """Fields of each line without blanks around them, or what is wrong with it."""
        with self.path.open(encoding=self._encoding, newline="") as lines:
            numbered = ((n, line) for n, line in enumerate(lines) if line.strip())
            skipped, first = next(numbered, (0, ""))
            if first.casefold().startswith("sep="):
                delimiter, skipped, first = first.rstrip("\r\n")[4:5] or ",", skipped + 1, ""
            else:
                delimiter = max(",;\t|", key=first.count)
            kept = chain([first] if first else [], lines)
            reader = csv.reader(kept, delimiter=delimiter, strict=True)
            while True:
                number = reader.line_num + skipped + 1
                try:
                    yield number, [value.strip() for value in next(reader)]
                except StopIteration:
                    return
                except csv.Error as error:
                    yield number, self._fault(error, number, reader.line_num + skipped)

    def _fault(self, error: csv.Error, number: int, last: int) -> str:
        if "unexpected end of data" in str(error):
            raise InputError(
                f"{self.path}, line {number}: a quote that opens there is never closed."
            ) from error
        return f"not CSV ({error}){'' if last == number else f', with the lines up to {last}'}"


def _without_blank_end(fields: list[str], width: int) -> list[str]:
    """The fields without blank ones at the end, beyond the first `width`."""
    while len(fields) > width and not fields[-1]:
        fields = fields[:-1]
    return fields


def _encoding_of(path: Path, remarks: list[str]) -> str:
    """How the text is encoded. Raises `InputError` where it is none."""
    with path.open("rb") as file:
        start = file.read(8)
    for mark, kind in WORKBOOKS.items():
        if start.startswith(mark):
            raise InputError(
                f"{path}: this is {kind}. Save its sheet as CSV UTF-8 (File, Save as) and name "
                "that file."
            )
    zeros = bytes(map(bool, start[:4]))
    told = [name for mark, name in BYTE_ORDER_MARKS.items() if start.startswith(mark)]
    told += [name for mark, name in UNMARKED.items() if zeros.startswith(mark)]
    if told:
        if error := _decoding_error(path, told[0]):
            raise InputError(f"{path}: not text in {error.encoding} ({error.reason}).") from error
        return told[0]
    if _is_binary(path):
        raise InputError(f"{path}: this is no text. Save the table as CSV UTF-8.")
    if _decoding_error(path, "utf-8") is None:
        return "utf-8"
    remarks.append(
        f"{path.name} is not UTF-8 and was read as Windows-1252; check its special characters."
    )
    return "latin-1" if _decoding_error(path, "cp1252") else "cp1252"


def _decoding_error(path: Path, encoding: str) -> UnicodeDecodeError | None:
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for block in _blocks(path):
            decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        return error
    return None


def _is_binary(path: Path) -> bool:
    counts = [(block.count(0), len(block)) for block in _blocks(path)]
    return sum(zeros for zeros, _ in counts) * 10 > sum(size for _, size in counts)


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            yield block


def file_named(table: Location, name: str) -> Location | None:
    """The file of this name, as it is spelled or as another system spells it; None: there is none.

    Relative names are looked for beside the table, then in the current folder. URLs, and files
    beside a table behind one, are not looked for.
    """
    if is_url(name):
        return parse_location(name)
    if isinstance(table, RemoteFile) and not Path(name).is_absolute():
        folder, relative = table.parent, posixpath.normpath(name.replace("\\", "/"))
        while relative.startswith("../"):  # a key of a store is no path that is followed
            folder, relative = folder.parent, relative.removeprefix("../")
        return folder / relative
    beside = table.parent if isinstance(table, Path) else Path()
    for spelled in _spellings(name):
        for file in dict.fromkeys((beside / spelled, Path(spelled))):
            try:
                os.stat(file)  # noqa: PTH116
            except (FileNotFoundError, NotADirectoryError, ValueError):
                continue
            except OSError:
                return file  # it may not be read: reported with the reason when it is opened
            return file
    return None


def absence(name: str) -> str:
    """What to say of a name that `file_named` does not find."""
    if Path(name).is_absolute():
        return "no such file"
    return f"no such file, neither beside the manifest nor in {Path.cwd()}"


def _spellings(name: str) -> Iterator[str]:
    for spelled in dict.fromkeys((name, name.replace("\\", "/"))):
        yield spelled
        for form in ("NFC", "NFD"):
            if (other := normalize(form, spelled)) != spelled:
                yield other
        if not spelled.isascii():  # a name in the bytes of the manifest, on a system of UTF-8
            yield os.fsdecode(spelled.encode("cp1252", "replace"))


# 20.11.2026 is what a spreadsheet of many countries makes of 2026-11-20; 11/20/2026 and
# 20/11/2026 cannot be told apart
DAY_FIRST = ("%d.%m.%Y", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S")
UNKNOWN = np.datetime64("NaT", "s")
ALLOWED = "2026-11-20, 2026-11-20T14:30 or 20.11.2026 14:30"


def time_of(text: str) -> np.datetime64:
    """The time that a text names, one with an offset in UTC; NaT where it is none.

    >>> str(time_of("20.11.2026 14:30")), str(time_of("11/20/2026"))
    ('2026-11-20T14:30:00', 'NaT')
    """
    moment = _moment(text)
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return UNKNOWN if moment is None else np.datetime64(moment, "s")


def iso_text(text: str) -> str | None:
    """The same time in ISO 8601, as exact as it is told, with its offset; None where it is none.

    >>> iso_text("20.11.2026"), iso_text("20.11.2026 14:30"), iso_text("2026-11-20 14:30+01:00")
    ('2026-11-20', '2026-11-20T14:30:00', '2026-11-20T14:30:00+01:00')
    """
    moment = _moment(text)
    return None if moment is None else moment.isoformat()


def _moment(text: str) -> date | None:
    """A date where no hour is told, else a datetime; None where it is neither."""
    for kind in (date, datetime):
        try:
            return kind.fromisoformat(text)
        except ValueError:
            continue
    for form in DAY_FIRST:
        try:
            moment = datetime.strptime(text, form)  # noqa: DTZ007  as told
        except ValueError:
            continue
        return moment.date() if form == DAY_FIRST[0] else moment
    return None
