"""Tables as spreadsheets write them."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakdet.errors import InputError
from leakdet.storage.table_text import read_table


@pytest.fixture
def table(tmp_path: Path):
    def write(content: bytes) -> Path:
        path = tmp_path / "t.csv"
        path.write_bytes(content)
        return path

    return write


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiters_blank_lines_and_ends_of_lines(table, delimiter: str, end: str):
    lines = ["", "a,b", "1,2", "", ",", " 3 , 4 ", ""]
    text = end.join(line.replace(",", delimiter) for line in lines)
    result = read_table(table(text.encode()))
    assert result.columns == ["a", "b"]
    assert result.rows == [(3, {"a": "1", "b": "2"}), (6, {"a": "3", "b": "4"})]
    assert (result.faults, result.remarks) == ([], [])


@pytest.mark.parametrize("delimiter", [";", ",", "\t"])
def test_the_first_line_of_excel_names_the_delimiter(table, delimiter: str):
    content = f"sep={delimiter}\r\na{delimiter}b,c\r\n1{delimiter}2\r\n"
    if delimiter != ",":
        result = read_table(table(content.encode()))
        assert (result.columns, result.rows) == (["a", "b,c"], [(3, {"a": "1", "b,c": "2"})])
    else:
        assert read_table(table(content.encode())).columns == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("encoding", "remarks"),
    [
        ("utf-8", 0),
        ("utf-8-sig", 0),
        ("utf-16", 0),
        ("utf-16-be", 0),
        ("utf-16-le", 0),
        ("utf-32", 0),
        ("utf-32-be", 0),
        ("utf-32-le", 0),
        ("cp1252", 1),
    ],
)
def test_encodings(table, encoding: str, remarks: int):
    result = read_table(table("Stra\u00dfe;b\r\nZ\u00fcrich \u2013;2\r\n".encode(encoding)))
    assert result.rows == [(2, {"Stra\u00dfe": "Z\u00fcrich \u2013", "b": "2"})]
    assert len(result.remarks) == remarks


def test_columns_that_a_spreadsheet_left_blank(table):
    result = read_table(table(b"a,b,,\n1,2,,\n1,2\n1,2,3\n1\n"))
    assert result.columns == ["a", "b"]
    assert [number for number, _ in result.rows] == [2, 3]
    assert result.faults == [(4, "it has 3 fields, not 2"), (5, "it has 1 field, not 2")]


def test_quotes(table):
    result = read_table(table(b'a,b\n"x, y","1\n2"\n"x"y,2\n3,4\n'))
    assert result.rows == [(2, {"a": "x, y", "b": "1\n2"}), (5, {"a": "3", "b": "4"})]
    assert [number for number, _ in result.faults] == [4]
    with pytest.raises(InputError, match="line 3: a quote that opens there is never closed"):
        read_table(table(b'a,b\n1,2\n"3,4\n5,6\n'))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04....", r"an Excel workbook \(.xlsx\). Save its sheet as CSV UTF-8"),
        (b"\xd0\xcf\x11\xe0....", "an Excel file"),
        (b"\xff\xfea", "not text in utf-16"),
        (b"ELF" + bytes(9), "this is no text. Save the table as CSV UTF-8"),
    ],
)
def test_what_is_no_text_is_refused(table, content: bytes, message: str):
    with pytest.raises(InputError, match=message):
        read_table(table(content))


@settings(max_examples=200, deadline=None)
@given(content=st.binary(max_size=200))
def test_any_bytes_are_a_table_or_refused_with_a_sentence(tmp_path_factory, content: bytes):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(content)
    try:
        result = read_table(path)
    except InputError:
        return
    assert all(set(row) == set(result.columns) for _, row in result.rows)
