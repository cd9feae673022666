import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakdet.core.errors import InputError
from leakdet.core.locations import RemoteFile
from leakdet.tables.read import (
    absence,
    file_named,
    is_reserved,
    iso_text,
    read_csv,
    read_table,
    time_of,
    write_csv,
)
from leakdet.tables.write import row_columns


def test_every_column_of_a_row_is_reserved() -> None:
    assert all(map(is_reserved, row_columns(True, ["leak", "ok"])))
    assert not any(map(is_reserved, ("site", "recorded_at", "logger", "lat", "lon", "pipe")))


def test_columns_are_the_keys_of_all_rows(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    write_csv(path, [{"epoch": 0.0, "a": 1.5}, {"epoch": 1.0, "b": "x, y"}])
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows == [
        {"epoch": "0.0", "a": "1.5", "b": ""},
        {"epoch": "1.0", "a": "", "b": "x, y"},
    ]


def test_rows_are_written_as_they_come_under_given_columns(tmp_path: Path) -> None:
    write_csv(tmp_path / "table.csv", ({"a": n} for n in range(3)), ["a", "b"])
    assert (tmp_path / "table.csv").read_text() == "a,b\n0,\n1,\n2,\n"


def test_names_of_any_bytes_are_kept(tmp_path: Path) -> None:
    write_csv(tmp_path / "table.csv", [{"path": b"\xff.wav".decode("utf-8", "surrogateescape")}])
    assert (tmp_path / "table.csv").read_bytes() == b"path\r\n\xff.wav\r\n"


def test_a_failed_write_leaves_the_old_table(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    write_csv(path, [{"a": 1}])
    with pytest.raises(ValueError, match="fields not in"):
        write_csv(path, [{"a": 2, "b": 3}], ["a"])
    assert path.read_text() == "a\n1\n"
    assert list(tmp_path.iterdir()) == [path]


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    write_csv(path, [{"path": b"\xff.wav".decode("utf-8", "surrogateescape"), "note": 'a, "b"'}])
    assert read_csv(path, "a table") == [{"path": "\udcff.wav", "note": 'a, "b"'}]


@pytest.mark.parametrize("content", ["a,b\n1\n", "a,b\n1,2,3\n", 'a,b\n"1,2\n', "a,b\n1,2\n3"])
def test_a_damaged_table_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "table.csv").write_text(content)
    with pytest.raises(InputError, match=r"table\.csv: not a table \(.+\)\. Build it again\."):
        read_csv(tmp_path / "table.csv", "a table", "Build it again.")
    with pytest.raises(InputError, match=r"none\.csv: not a table \(No such file"):
        read_csv(tmp_path / "none.csv", "a table")


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


def test_a_file_beside_the_table_comes_before_one_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = Path("lists/night.csv")
    table.parent.mkdir()
    Path("a.wav").touch()
    assert file_named(table, "a.wav") == Path("a.wav")
    Path("lists/a.wav").touch()
    assert file_named(table, "a.wav") == Path("lists/a.wav")
    assert file_named(table, str(tmp_path / "a.wav")) == tmp_path / "a.wav"
    assert file_named(table, "none.wav") is None
    assert absence("none.wav") == f"no such file, neither beside the manifest nor in {tmp_path}"
    assert absence("/none.wav") == "no such file"


def test_names_as_other_systems_spell_them(tmp_path: Path) -> None:
    (tmp_path / "night").mkdir()
    (tmp_path / "night/Zu\u0308rich.wav").touch()
    found = file_named(tmp_path / "t.csv", "night\\Z\u00fcrich.wav")
    assert found == tmp_path / "night/Zu\u0308rich.wav"


def test_urls_are_not_looked_for() -> None:
    table = RemoteFile("s3://bucket/night/list.csv")
    assert file_named(Path("list.csv"), "s3://bucket/a.wav") == RemoteFile("s3://bucket/a.wav")
    assert file_named(Path("list.csv"), "file:///data/a.wav") == Path("/data/a.wav")
    assert file_named(table, "a\\b.wav") == RemoteFile("s3://bucket/night/a/b.wav")
    assert file_named(table, "./a.wav") == RemoteFile("s3://bucket/night/a.wav")
    assert file_named(table, "../audio/./a.wav") == RemoteFile("s3://bucket/audio/a.wav")
    assert file_named(table, "/nowhere/a.wav") is None


@pytest.mark.parametrize(
    ("text", "iso", "utc"),
    [
        ("2026-12-02", "2026-12-02", "2026-12-02T00:00:00"),
        ("2026-12-02T03:10", "2026-12-02T03:10:00", "2026-12-02T03:10:00"),
        ("2026-12-02 03:10:05+02:00", "2026-12-02T03:10:05+02:00", "2026-12-02T01:10:05"),
        ("02.12.2026", "2026-12-02", "2026-12-02T00:00:00"),
        ("2.12.2026 3:10", "2026-12-02T03:10:00", "2026-12-02T03:10:00"),
        ("2.12.2026 3:10:05", "2026-12-02T03:10:05", "2026-12-02T03:10:05"),
    ],
)
def test_a_time_keeps_its_exactness_and_offset(text: str, iso: str, utc: str) -> None:
    assert iso_text(text) == iso
    assert str(time_of(text)) == str(time_of(iso)) == utc


@pytest.mark.parametrize("text", ["", "12/02/2026", "31.02.2026", "03:10", "yesterday"])
def test_what_may_mean_several_things_is_no_time(text: str) -> None:
    assert iso_text(text) is None
    assert np.isnat(time_of(text))
