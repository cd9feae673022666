"""Excel workbooks (.xlsx): the first sheet read as a table, and rows written as one."""

import datetime as dt
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from leakdet.core.errors import InputError, install_command
from leakdet.core.files import as_input_error, whole_file
from leakdet.tables.schema import rounded

ZIP, OLE = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
WHAT = "a whole Excel workbook (.xlsx)"
MOST_BYTES = 500_000_000  # unpacked, of all sheets
LONGEST_TEXT = 32_767  # of a cell
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")  # characters that no cell may hold


def require_openpyxl(path: Path) -> None:
    """Raise `InputError` where no workbook can be read or written."""
    if find_spec("openpyxl") is None:
        raise InputError(
            f"{path}: Excel workbooks need openpyxl, which is not installed: "
            f"{install_command('xlsx')}; or save the sheet as CSV UTF-8."
        )


def is_workbook(path: Path) -> bool:
    """True of an .xlsx file, by its first bytes; an older or encrypted one is refused."""
    with path.open("rb") as file:
        start = file.read(4)
    if start == OLE:
        raise InputError(
            f"{path}: this is an old Excel file (.xls), or one with a password. Save it as .xlsx "
            "without a password, or its sheet as CSV UTF-8."
        )
    return start == ZIP


def _check_size(path: Path) -> None:
    """Refuse what is no workbook, or unpacks to more than any table of recordings has."""
    with as_input_error(path, WHAT), zipfile.ZipFile(path) as parts:
        names = {part.filename for part in parts.infolist()}
        size = sum(part.file_size for part in parts.infolist())
    if "xl/workbook.xml" not in names:
        raise InputError(f"{path}: a ZIP file, and no Excel workbook (.xlsx).")
    if size > MOST_BYTES:
        raise InputError(
            f"{path}: its sheets unpack to {size / 1e6:.0f} MB, and at most {MOST_BYTES / 1e6:.0f} "
            "are read. Save the sheet as CSV UTF-8."
        )


@contextmanager
def _first_sheet(path: Path, values: bool) -> Iterator[Any]:
    """The first sheet, with the values of formulas or with the formulas, and all sheets' names."""
    import openpyxl

    workbook = openpyxl.load_workbook(path, read_only=True, data_only=values, keep_links=False)
    try:
        sheet = workbook.worksheets[0]
        sheet.reset_dimensions()  # what other programs note there may be wrong
        yield sheet, workbook.sheetnames
    finally:
        workbook.close()


class Workbook:
    """The first sheet of an .xlsx file; `remarks` says which, where there are several."""

    def __init__(self, path: Path) -> None:
        require_openpyxl(path)
        _check_size(path)
        self.path, self.remarks = path, list[str]()
        with as_input_error(path, WHAT), _first_sheet(path, values=True) as (sheet, names):
            if len(names) > 1:
                self.remarks.append(
                    f"{path.name} has {len(names)} sheets; the first, {sheet.title}, was read."
                )

    def records(self) -> Iterator[tuple[int, list[str] | str]]:
        """The number of each row, with its cells as text, or with what is wrong with it."""
        with (
            as_input_error(self.path, WHAT),
            _first_sheet(self.path, values=True) as (sheet, _),
            _first_sheet(self.path, values=False) as (formulas, _),
        ):
            rows = zip(sheet.iter_rows(), formulas.iter_rows(), strict=True)
            for number, (cells, written) in enumerate(rows, 1):
                yield number, _texts(cells, written)


def _texts(cells: Sequence[Any], written: Sequence[Any]) -> list[str] | str:
    """The cells of a row as text; a formula without a value, or with an error, is a fault."""
    for cell, formula in zip(cells, written, strict=True):
        if formula.data_type == "f" and cell.value is None:
            return (
                f"the formula in {formula.coordinate} has no value; open the file in Excel and "
                "save it"
            )
        if cell.data_type == "e":
            return f"{cell.coordinate} holds {cell.value}"
    return [_text(cell).strip() for cell in cells]


def _text(cell: Any) -> str:
    match cell.value:
        case None:
            return ""
        case float(value) if value.is_integer():
            return str(int(value))
        case dt.datetime() as moment if "h" not in cell.number_format.lower():
            return moment.date().isoformat()
        case dt.date() | dt.time() as moment:
            return moment.isoformat()
        case value:
            return str(value)


def write_workbook(
    path: Path, rows: Iterable[Mapping[str, Any]], columns: Sequence[str], title: str
) -> None:
    """Write rows as a sheet under `columns`, atomically; a cell is a number or text."""
    with workbook_writer(path, columns, title) as write:
        for row in rows:
            write(row)


@contextmanager
def workbook_writer(path: Path, columns: Sequence[str], title: str) -> Iterator[Any]:
    """A function that writes one row; the file gets its name when all are written."""
    require_openpyxl(path)
    import openpyxl
    from openpyxl.cell import WriteOnlyCell

    workbook = openpyxl.Workbook(write_only=True)
    sheet = workbook.create_sheet(title)
    sheet.freeze_panes = "A2"

    def cell(value: Any) -> Any:
        if value is None or isinstance(value, int | float):
            return value
        made = WriteOnlyCell(sheet, _printable(str(value)))
        made.data_type = "s"  # text, also where it begins with =
        return made

    sheet.append([cell(name) for name in columns])
    with whole_file(path) as partial:
        yield lambda row: sheet.append([cell(rounded(n, row.get(n))) for n in columns])
        with partial.open("wb") as file:
            workbook.save(file)


def _printable(text: str) -> str:
    """Text as a cell may hold it: control characters and bytes that are no text are escaped."""
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)[:LONGEST_TEXT]
