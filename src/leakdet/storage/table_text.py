"""Reads a table as spreadsheets write it: any encoding, any delimiter, blank lines."""

import codecs
import csv
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from unicodedata import normalize

from leakdet.errors import InputError, counted

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
    """Read a CSV file whole, as `TableStream` does.

    Raises:
        InputError: as `TableStream`.
    """
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

    Raises:
        InputError: the file cannot be read, is no text, or an open quote swallows the rest of it.
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
