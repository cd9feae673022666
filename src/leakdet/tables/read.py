"""Reads tables: those of leakdet, rows of predict, and lists of recordings as anyone writes them.

One reader takes CSV apart and says in which line a fault lies. What leakdet wrote is UTF-8 with
commas, and a fault is an error; a list may be in any encoding and delimiter, and its faults are
given with the number of their line.
"""

import codecs
import csv
import os
import posixpath
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any
from unicodedata import normalize

import numpy as np
import numpy.typing as npt

from leakdet.core.errors import InputError, counted, first_few
from leakdet.core.files import as_input_error, refuse_pointer
from leakdet.core.locations import Location, RemoteFile, is_url, parse_location
from leakdet.tables.schema import (
    DECISIONS,
    LABEL,
    ROW_MARKS,
    SPAN,
    WHY,
    column_type,
    fused,
)
from leakdet.tables.values import (
    OTHER_NAMES,
    from_the_file,
    is_label_track,
    is_number,
    seconds_columns,
    sound_beside,
    time_of,
)
from leakdet.tables.workbooks import Workbook, is_workbook
from leakdet.tables.write import require_format


def _records(
    lines: Iterable[str], delimiter: str = ",", skipped: int = 0
) -> Iterator[tuple[int, list[str] | str]]:
    """First line and fields of each record, or what is wrong with it; `skipped` lines lie before.

    Raises `ValueError` where a quote is never closed, since nothing behind it can be read.
    """
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        number = reader.line_num + skipped + 1
        try:
            yield number, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "unexpected end of data" in str(error):
                raise ValueError(
                    f"line {number}: a quote that opens there is never closed"
                ) from error
            last = reader.line_num + skipped
            others = "" if last == number else f", with the lines up to {last}"
            yield number, f"not CSV ({error}){others}"


def _own_records(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """First line and fields of the header and of each row; raises `ValueError` at a fault.

    Blank lines, as editors leave them, are no rows.
    """
    width = 0
    for number, fields in _records(lines):
        if isinstance(fields, str):
            raise ValueError(f"line {number}: {fields}")
        if not fields:
            continue
        width = width or len(fields)
        if len(fields) != width:
            raise ValueError(
                f"line {number} has {counted(len(fields), 'field')}, and the first has {width}"
            )
        yield number, fields


def read_csv(path: Path, what: str, remedy: str = "") -> list[dict[str, str]]:
    """The rows of a table that `write_csv` wrote; `what` names its kind."""
    with as_input_error(path, what, remedy), _opened(path) as lines:
        records = _own_records(lines)
        _, header = next(records, (0, []))
        return [dict(zip(header, map(fused, fields), strict=True)) for _, fields in records]


def _opened(path: Path) -> IO[str]:
    """A table of leakdet; names of files may hold any bytes."""
    return path.open(newline="", encoding="utf-8-sig", errors="surrogateescape")


Columns = dict[str, npt.NDArray[Any]]
AT_A_TIME = 4_096  # rows of a CSV
MOST_PROB = 1.0 + 1e-6  # probabilities of classes in single precision may add up to more than 1


def read_columns(path: Path, names: Sequence[str] | None = None) -> Iterator[Columns]:
    """Columns of a file of rows, at most 4,096 rows of a CSV at a time; None: all that it has.

    Numbers are float64, NaN where blank; text is an array of `str`, "" where blank. Of `names`,
    those that the file lacks are left out.
    """
    refuse_pointer(path)
    if path.suffix.lower() == ".parquet":
        require_format("parquet")
        yield from _parquet_columns(path, names)
    else:
        yield from _csv_columns(path, names)


def _csv_columns(path: Path, names: Sequence[str] | None) -> Iterator[Columns]:
    try:
        with _opened(path) as lines:
            records = _own_records(lines)
            _, header = next(records, (0, []))
            _check_header(path, header)
            taken = [(at, name) for at, name in enumerate(header) if names is None or name in names]
            none_yet = True
            while (rows := list(islice(records, AT_A_TIME))) or none_yet:
                none_yet = False
                numbers = [number for number, _ in rows]
                values = list(zip(*(fields for _, fields in rows), strict=True))
                values = values or [()] * len(header)
                columns = {name: _array(path, name, values[at], numbers) for at, name in taken}
                _check_values(path, columns, numbers)
                yield columns
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from error
    except ValueError as error:
        raise InputError(f"{path}: {error}; the file is damaged.") from error


def _check_header(path: Path, header: Sequence[str]) -> None:
    if len(header) == 1 and (other := max(";\t|", key=header[0].count)) in header[0]:
        raise InputError(
            f"{path}: its fields are separated by {other!r}, as some spreadsheets save them. Save "
            "it with commas and decimal points, or name the file that predict wrote."
        )
    if not {*header} >= ROW_MARKS:
        raise InputError(
            f"{path}: these are no rows of leakdet predict; they have at least the columns path "
            "and decision."
        )


def _check_values(path: Path, columns: Columns, lines: Sequence[int] | None = None) -> None:
    """Refuse values that predict never writes; `lines` of a CSV, None: of Parquet."""
    decisions = columns.get("decision", np.array([], object))
    probs = columns.get("leak_prob", np.array([]))
    for name, is_bad, allowed in (
        ("leak_prob", (probs < 0.0) | (probs > MOST_PROB), "a number from 0 to 1"),
        ("decision", ~np.isin(decisions.astype(str), DECISIONS), ", ".join(DECISIONS[:-1])),
    ):
        if is_bad.any():
            at = int(np.flatnonzero(is_bad)[0])
            place = f"row {at + 1}" if lines is None else f"line {lines[at]}"
            raise InputError(
                f"{path}, {place}: {name} is {columns[name][at]}, and predict writes {allowed} or "
                "nothing. Correct the row, or name the file that predict wrote."
            )


def _array(path: Path, name: str, values: Sequence[str], lines: Sequence[int]) -> npt.NDArray[Any]:
    if column_type(name) == "string":
        # decisions, models and sites are few, and paths many
        return np.array(values if name == "path" else list(map(sys.intern, values)), object)
    try:
        return np.array([float(value) if value else np.nan for value in values], np.float64)
    except ValueError as error:
        bad = next(at for at, value in enumerate(values) if value and not is_number(value))
        comma = " with a decimal point" if is_number(values[bad].replace(",", ".")) else ""
        raise InputError(
            f"{path}, line {lines[bad]}: column {name} holds {values[bad]!r}, which is no number; "
            f"write numbers{comma}, or nothing."
        ) from error


def _parquet_columns(path: Path, names: Sequence[str] | None) -> Iterator[Columns]:
    import pyarrow
    from pyarrow import parquet

    try:
        header = parquet.read_schema(path).names
        _check_header(path, header)
        taken = [name for name in header if names is None or name in names]
        table = parquet.read_table(path, columns=taken, use_threads=False)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}).") from error
    except pyarrow.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path}: not Parquet ({reason}); the file is damaged.") from error
    arrays: Columns = {}
    for name in taken:
        column = table.column(name)
        if column_type(name) != "string":
            arrays[name] = column.cast(pyarrow.float64()).to_numpy()
        else:
            coded = column.cast(pyarrow.string()).fill_null("").combine_chunks().dictionary_encode()
            words = np.array(coded.dictionary.to_pylist(), object)
            arrays[name] = words[coded.indices.to_numpy()] if len(coded) else words
    _check_values(path, arrays)
    yield arrays


PART = re.compile(r"part-(\d{5,})\.(csv|parquet)")


def part_files(folder: Path) -> list[tuple[int, Path]]:
    """The parts in a folder and their numbers, by number."""
    matches = ((PART.fullmatch(path.name), path) for path in folder.iterdir())
    return sorted((int(match[1]), path) for match, path in matches if match)


def each_part(place: Path, names: Sequence[str] | None = None) -> Iterator[Columns]:
    """Columns of one part after the other, as `read_columns` gives them; memory is that of one.

    `place` is a folder of parts or a file of rows. Of `names`, what the rows lack is left out.
    """
    if place.is_dir():
        files = [path for _, path in part_files(place)]
        if not files:
            raise InputError(
                f"{place}: there are no parts in this folder; leakdet predict MODEL RECORDINGS "
                "--parts NEW_FOLDER writes them."
            )
    elif place.suffix.lower() in (".csv", ".parquet"):
        files = [place]
    elif not place.exists():
        raise InputError(f"{place}: there is no such folder, and no such file.")
    else:
        raise InputError(f"{place}: name a folder of parts, or a .csv file that predict wrote.")
    for file in files:
        yield from read_columns(file, names)


def read_rows(place: Path, names: Sequence[str] | None = None) -> Columns:
    """The columns of all rows, in their order; the rest as `each_part`.

    A column that only some of the parts have is blank in the others.
    """
    parts = list(each_part(place, names))
    columns = dict.fromkeys(name for part in parts for name in part)
    return {name: np.concatenate([_filled(part, name) for part in parts]) for name in columns}


def _filled(part: Columns, name: str) -> npt.NDArray[Any]:
    if name in part:
        return part[name]
    rows = len(next(iter(part.values()), ()))
    is_text = column_type(name) == "string"
    return np.full(rows, "", object) if is_text else np.full(rows, np.nan)


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


OWN_MARKS = {WHY, "recording_id", "clip"}  # columns of the tables in which no cell is a formula


@dataclass
class Table:
    """Columns, rows with the number of their first line, and what is wrong with other rows.

    Every row has a field for each column, without blanks around it.
    """

    columns: list[str] = field(default_factory=list)
    rows: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    faults: list[tuple[int, str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def columns_hint(columns: Sequence[str], needed: Sequence[str], remarks: Sequence[str] = ()) -> str:
    """What a table has in place of the columns that are needed, and what to do about it.

    >>> columns_hint(["Path", "site"], ["path", "label"])
    'it has no path and no label, but Path, site. Write path in place of Path.'
    """
    if not columns:
        return "it is empty."
    missing = [name for name in needed if name not in columns]
    text = f"it has no {' and no '.join(missing)}, but {first_few(columns)}."
    spelled = [
        f"{name} in place of {other}"
        for name in missing
        for other in columns
        if other.casefold() == name
    ]
    text += f" Write {' and '.join(spelled)}." if spelled else ""
    return " ".join([text, *remarks])


def read_table(path: Path) -> Table:
    """Read a table whole, as `TableStream` does."""
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

    Or the first sheet of an Excel workbook (.xlsx). Iterate for its rows, as often as needed, in
    bounded memory: the number of a line, and its fields by column, or a text on what is wrong with
    it. A first line `sep=;` names the delimiter;
    blank lines are skipped.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.remarks: list[str] = []
        try:
            if not stat.S_ISREG(path.stat().st_mode):  # a pipe can be read once only
                raise InputError(f"{path}: this is no file. Write the table to one, and name that.")
            refuse_pointer(path)
            self._workbook = Workbook(path) if is_workbook(path) else None
            if self._workbook is None:
                self._encoding = _encoding_of(path, self.remarks)
            else:
                self.remarks += self._workbook.remarks
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror}).") from error
        texts = (fields for _, fields in self._records() if not isinstance(fields, str))
        filled = filter(any, texts)
        first, second = next(filled, []), next(filled, [])
        self._is_track = is_label_track(first)
        heading = [*SPAN, LABEL] if self._is_track else _without_blank_end(first, 0)
        self.columns = [normalize("NFC", name) for name in heading]
        self._width = len(self.columns)
        self._same: dict[str, str] = {}  # what all rows have besides their fields
        if seconds := seconds_columns(self.columns):
            example = dict(zip(self.columns, second, strict=False)).get(seconds[0], "")
            if np.isnat(time_of(example)):  # else they are dates, and no seconds
                self._name_seconds(seconds)

    def _name_seconds(self, seconds: list[str]) -> None:
        """Give columns on seconds of files, as other programs write them, leakdet's names."""
        names = dict(zip(seconds, SPAN, strict=True))
        for name, usual in OTHER_NAMES.items():
            others = [other for other in self.columns if other.casefold() in usual]
            if others and name not in self.columns:
                names[others[0]] = name
        self.columns = [names.get(name, name) for name in self.columns]
        if "path" not in self.columns and (sound := sound_beside(self.path)):
            self._same = {"path": sound}
            self.columns.append("path")
        self.remarks.append(
            f"{' and '.join(seconds)} of {self.path.name} are seconds of a recording: each row is "
            "about these alone."
        )

    def __iter__(self) -> Iterator[tuple[int, dict[str, str] | str]]:
        width, is_heading = self._width, not self._is_track
        for number, fields in self._records():
            if isinstance(fields, str):
                yield number, fields
            elif is_heading:
                is_heading = not any(fields)
            # spreadsheets write the columns that were touched and left blank, too
            elif any(fields := _without_blank_end(fields, width)):
                if self._is_track and fields[0].startswith("\\"):  # the frequencies of a label
                    continue
                if self._workbook or self._is_track:  # no blank cells at the end of a row
                    fields = fields + [""] * (width - len(fields))
                elif OWN_MARKS & {*self.columns}:
                    fields = list(map(fused, fields))
                if len(fields) == width:
                    row = dict(zip(self.columns, fields, strict=False)) | self._same
                    yield number, from_the_file(row)
                else:
                    yield number, f"it has {counted(len(fields), 'field')}, not {width}"

    def _records(self) -> Iterator[tuple[int, list[str] | str]]:
        """Fields of each line without blanks around them, or what is wrong with it."""
        if self._workbook:
            yield from self._workbook.records()
            return
        with self.path.open(encoding=self._encoding, newline="") as lines:
            numbered = ((n, line) for n, line in enumerate(lines) if line.strip())
            skipped, first = next(numbered, (0, ""))
            if first.casefold().startswith("sep="):
                delimiter, skipped, first = first.rstrip("\r\n")[4:5] or ",", skipped + 1, ""
            else:
                delimiter = max(",;\t|", key=first.count)
            unread = chain([first] if first else [], lines)
            try:
                for number, record in _records(unread, delimiter, skipped):
                    is_fault = isinstance(record, str)
                    yield number, record if is_fault else list(map(str.strip, record))
            except ValueError as error:
                raise InputError(f"{self.path}, {error}.") from error


def lists_seconds(path: Path) -> bool:
    """True of a table of seconds, as Raven and Audacity write it."""
    with suppress(InputError):  # no file, or no table
        return {*SPAN} <= {*TableStream(path).columns}
    return False


def _without_blank_end(fields: list[str], width: int) -> list[str]:
    """The fields without blank ones at the end, beyond the first `width`."""
    while len(fields) > width and not fields[-1]:
        fields = fields[:-1]
    return fields


CONTROLS = bytes({*range(1, 32)} - {*b"\t\n\v\f\r\x1a\x1b"})  # which no text has


def _encoding_of(path: Path, remarks: list[str]) -> str:
    """The encoding of a text file."""
    with path.open("rb") as file:
        start = file.read(8)
    zeros = bytes(map(bool, start[:4]))
    encodings = [name for mark, name in BYTE_ORDER_MARKS.items() if start.startswith(mark)]
    encodings += [name for mark, name in UNMARKED.items() if zeros.startswith(mark)]
    if encodings:
        if error := _decoding_error(path, encodings[0]):
            raise InputError(f"{path}: not text in {error.encoding} ({error.reason}).") from error
        return encodings[0]
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
    zeros = controls = size = 0
    for block in _blocks(path):
        size += len(block)
        zeros += block.count(0)
        controls += len(block) - len(block.translate(None, CONTROLS))
    return zeros * 10 > size or controls * 30 > size


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
    """The reason why `file_named` finds no file of a name."""
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
