"""Reads a table as spreadsheets write it: any encoding, any delimiter, blank lines."""

import codecs
import csv
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unicodedata import normalize

from leakdet.errors import InputError

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
    """Read a CSV file of UTF-8, -16, -32 or Windows-1252, delimited by commas, semicolons or tabs.

    A first line `sep=;` names the delimiter; blank lines are skipped.

    Raises:
        InputError: the file cannot be read, is no text, or an open quote swallows the rest of it.
    """
    table = Table()
    lines = io.StringIO(_text_of(path, table), newline="")
    skipped, first = next(((n, line) for n, line in enumerate(lines) if line.strip()), (0, ""))
    if first.casefold().startswith("sep="):
        delimiter = first.rstrip("\r\n")[4:5] or ","
        skipped += 1
    else:
        delimiter = max(",;\t|", key=first.count)
        lines.seek(lines.tell() - len(first))
    _parse(path, csv.reader(lines, delimiter=delimiter, strict=True), skipped, table)
    return table


def _text_of(path: Path, table: Table) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from error
    for start, kind in WORKBOOKS.items():
        if content.startswith(start):
            raise InputError(
                f"{path}: this is {kind}. Save its sheet as CSV UTF-8 (File, Save as) and name "
                "that file."
            )
    for mark, encoding in BYTE_ORDER_MARKS.items():
        if content.startswith(mark):
            return _decoded(path, content, encoding)
    for start, encoding in UNMARKED.items():
        if bytes(map(bool, content[:4])).startswith(start):
            return _decoded(path, content, encoding)
    if content.count(0) * 10 > len(content):
        raise InputError(f"{path}: this is no text. Save the table as CSV UTF-8.")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        table.remarks.append(
            f"{path.name} is not UTF-8 and was read as Windows-1252; check its special characters."
        )
    try:
        return content.decode("cp1252")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _decoded(path: Path, content: bytes, encoding: str) -> str:
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not text in {error.encoding} ({error.reason}).") from error


def _parse(path: Path, reader: Any, skipped: int, table: Table) -> None:
    """Fill the table from a reader of `csv`, whose first line is line `skipped` + 1 of the file."""
    while True:
        number = reader.line_num + skipped + 1
        try:
            fields = [value.strip() for value in next(reader)]
        except StopIteration:
            return
        except csv.Error as error:
            if "unexpected end of data" in str(error):
                raise InputError(
                    f"{path}, line {number}: a quote that opens there is never closed."
                ) from error
            last = reader.line_num + skipped
            lines = "" if last == number else f", with the lines up to {last}"
            table.faults.append((number, f"not CSV ({error}){lines}"))
            continue
        width = len(table.columns)
        # Spreadsheets write the columns that were touched and left blank, too.
        while fields and not fields[-1] and (not width or len(fields) > width):
            fields.pop()
        if not width:
            table.columns = [normalize("NFC", name) for name in fields]
        elif any(fields) and len(fields) != width:
            table.faults.append((number, f"it has {len(fields)} fields, not {width}"))
        elif any(fields):
            table.rows.append((number, dict(zip(table.columns, fields, strict=True))))
