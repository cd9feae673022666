"""Excel workbooks: what is written is read back as it was, and what cannot be read is said."""

import io
import zipfile
from datetime import datetime
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from tests.conftest import says

from leakdet.building.sources import from_manifest
from leakdet.core.errors import InputError
from leakdet.scoring.listing import RecordingTable
from leakdet.tables import workbooks
from leakdet.tables.read import read_table
from leakdet.tables.workbooks import write_workbook


@pytest.fixture
def workbook(tmp_path: Path):
    """A workbook with these rows in its first sheet, and so many sheets."""

    def make(*rows: list[Any], sheets: int = 1) -> Path:
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append(row)
        for _ in range(sheets - 1):
            book.create_sheet().append(["nothing"])
        book.save(tmp_path / "list.xlsx")
        return tmp_path / "list.xlsx"

    return make


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    rows = [
        {"path": "a.wav", "label": "leak", "score": 0.123456, "lat": 50.1109221, "n": 3},
        {"path": "=1+1", "label": "'-x", "score": None, "lat": None, "n": None},
        {"path": "umlaut ä.wav", "label": "no_leak", "score": 1.0, "lat": 8.0, "n": 0},
        {"path": "control\x07", "label": "+49", "score": 2e-5, "lat": 0.1, "n": -1},
    ]
    out = tmp_path / "v.xlsx"
    write_workbook(out, rows, list(rows[0]), "verdicts")
    table = read_table(out)
    assert table.columns == list(rows[0])
    assert [row["label"] for _, row in table.rows] == [row["label"] for row in rows]
    assert [row["path"] for _, row in table.rows][:3] == [row["path"] for row in rows[:3]]
    assert table.rows[0][1] | {"path": ""} == {
        "path": "", "label": "leak", "score": "0.1235", "lat": "50.110922", "n": "3",
    }  # fmt: skip
    cells = [cell for row in openpyxl.load_workbook(out).active for cell in row]
    assert {cell.data_type for cell in cells if cell.value is not None} == {"n", "s"}


def test_numbers_dates_and_blanks_become_text(workbook) -> None:
    path = workbook(
        ["path", "label", "recorded_at", "day", None],
        ["a.wav", 1.0, datetime.fromisoformat("2026-11-20T03:30"), None, None],
        [None, None],
        [" b.wav ", 0.5, "20.11.2026", datetime.fromisoformat("2026-11-20").date()],
    )
    table = read_table(path)
    assert table.columns == ["path", "label", "recorded_at", "day"]
    assert table.rows == [
        (2, {"path": "a.wav", "label": "1", "recorded_at": "2026-11-20T03:30:00", "day": ""}),
        (4, {"path": "b.wav", "label": "0.5", "recorded_at": "20.11.2026", "day": "2026-11-20"}),
    ]


def test_the_first_of_several_sheets_is_read_and_said(workbook) -> None:
    table = read_table(workbook(["path", "label"], ["a.wav", "leak"], sheets=3))
    assert [row["path"] for _, row in table.rows] == ["a.wav"]
    (remark,) = table.remarks
    assert says([remark], "3 sheets; .*Sheet")
    notes = workbook(["Path", "This is a note"], sheets=2)
    with pytest.raises(
        InputError, match=r"no path and no label, .*note\. Write path in .*2 sheets"
    ):
        from_manifest(notes)
    with pytest.raises(InputError, match=r"column path, .*in place of Path\. .*2 sheets"):
        RecordingTable(notes)
    notes.write_bytes(b"")
    with pytest.raises(InputError, match=r"it is empty\.$"):
        from_manifest(notes)


def test_a_formula_without_a_value_or_with_an_error_leaves_its_row_out(workbook) -> None:
    path = workbook(["path", "label"], ["a.wav", "=A1"], ["b.wav", "leak"], ["c.wav", "#N/A"])
    table = read_table(path)
    assert [row["path"] for _, row in table.rows] == ["b.wav"]
    (first, formula), (last, error) = table.faults
    assert (first, last) == (2, 4)
    assert says([formula, error], "B2 .*Excel", "B4 .*#N/A")


def test_what_is_no_workbook_is_refused(tmp_path: Path, workbook, monkeypatch) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as parts:
        parts.writestr("a.txt", "")
    whole = workbook(["path", "label"]).read_bytes()
    path = tmp_path / "other.xlsx"
    for file, words in (
        (b"\xd0\xcf\x11\xe0....", r"\.xls.*password"),
        (b"PK\x03\x04....", "not a whole Excel"),
        (content.getvalue(), "no Excel workbook"),
        (whole[: len(whole) // 2], "not a whole Excel"),
    ):
        path.write_bytes(file)
        with pytest.raises(InputError, match=rf"other\.xlsx: .*{words}"):
            read_table(path)
    monkeypatch.setattr(workbooks, "MOST_BYTES", 1000)
    path.write_bytes(whole)
    with pytest.raises(InputError, match="unpack"):
        read_table(path)


def test_without_openpyxl_the_command_that_installs_it_is_named(workbook, monkeypatch) -> None:
    path = workbook(["path", "label"])
    monkeypatch.setattr(workbooks, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install .*\[xlsx\]"):
        read_table(path)
