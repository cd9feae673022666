from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakdet.core.errors import InputError
from leakdet.core.locations import RemoteFile
from leakdet.tables.read import (
    absence,
    each_part,
    file_named,
    part_files,
    read_columns,
    read_csv,
    read_rows,
    read_table,
)
from leakdet.tables.values import iso_text, time_of
from leakdet.tables.write import part_bytes, write_csv


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
    with pytest.raises(InputError, match=r"line 3: .*quote"):
        read_table(table(b'a,b\n1,2\n"3,4\n5,6\n'))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfea", "not text in utf-16"),
        (b"ELF" + bytes(9), r"no text\. .*CSV UTF-8"),
        (bytes(n % 256 for n in range(100, 900)), r"no text\. .*CSV UTF-8"),
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
    assert absence("none.wav").startswith("no such file, ")
    assert absence("none.wav").endswith(f" {tmp_path}")
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


NAMES = ["path", "site", "decision", "leak_prob", "windows", "flags", "prob_leak"]
ROWS: list[dict[str, Any]] = [
    {"path": "a,b.wav", "site": "1", "decision": "leak", "leak_prob": 0.25, "windows": 3},
    {"path": "c.wav", "decision": None, "leak_prob": None, "windows": None, "timeline": [1]},
]
ROWS[0] |= {"flags": "clipped,damaged", "prob_leak": 0.125}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_rows_come_back_typed(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"part.{kind}"
    path.write_bytes(part_bytes(ROWS, NAMES, kind))
    (columns,) = read_columns(path)
    assert list(columns) == NAMES
    assert columns["path"].tolist() == ["a,b.wav", "c.wav"]
    assert columns["site"].tolist() == ["1", ""]  # of a manifest: text, never 1.0
    assert columns["decision"].tolist() == ["leak", ""]
    assert columns["flags"].tolist() == ["clipped,damaged", ""]
    np.testing.assert_array_equal(columns["leak_prob"], [0.25, np.nan])
    np.testing.assert_array_equal(columns["windows"], [3.0, np.nan])
    np.testing.assert_array_equal(columns["prob_leak"], [0.125, np.nan])


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_only_the_columns_asked_for_and_no_rows_at_all(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"part.{kind}"
    path.write_bytes(part_bytes([], NAMES, kind))
    (columns,) = read_columns(path, ["leak_prob", "site", "mains_hum_db"])
    assert {name: values.tolist() for name, values in columns.items()} == {
        "site": [],
        "leak_prob": [],
    }


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_name_of_any_bytes_is_written(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"part.{kind}"
    path.write_bytes(part_bytes([{"path": "\udcff.wav", "decision": "leak"}], NAMES, kind))
    (columns,) = read_columns(path, ["path"])
    assert columns["path"].tolist() == [{"csv": "\udcff.wav", "parquet": "\\xff.wav"}[kind]]


def test_a_row_of_parquet_with_an_impossible_value_is_named(tmp_path: Path) -> None:
    path = tmp_path / "part.parquet"
    path.write_bytes(part_bytes([ROWS[0], ROWS[1] | {"leak_prob": 1.7}], NAMES, "parquet"))
    with pytest.raises(InputError, match=r"part\.parquet, row 2: leak_prob .*1\.7"):
        list(read_columns(path))


def test_csv_is_read_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(part_bytes(ROWS * 3, NAMES, "csv"))
    with mock.patch("leakdet.tables.read.AT_A_TIME", 4):
        sizes = [len(columns["path"]) for columns in read_columns(path)]
    assert sizes == [4, 2]


def test_blank_lines_are_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "part.csv"
    path.write_bytes(part_bytes(ROWS, NAMES, "csv").replace(b"\n", b"\n\r\n"))
    (columns,) = read_columns(path)
    assert columns["path"].tolist() == ["a,b.wav", "c.wav"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", b"path,decision\na.wav,leak\n\na.wav\n", "line 4 has 1 field"),
        ("a.csv", b'path,decision\n"a.wav,leak\n', "line 2: a quote"),
        ("a.csv", b'path,decision\n"a"b,leak\n', "line 2: not CSV"),
        ("a.csv", b"path,decision,leak_prob\n\na,leak,1\nb,leak,high\n", "line 4: .*leak_prob"),
        (
            "a.csv",
            b"path,decision,leak_prob\na,leak,1\n\nb,leak,1.7\n",
            "line 4: .*leak_prob .*1.7",
        ),
        ("a.csv", b"path,decision,leak_prob\na,leak,1\nb,maybe,0.5\n", "line 3: decision .*maybe"),
        ("a.csv", b'path,decision,leak_prob\na,leak,"0,5"\n', "'0,5'.*with a decimal point"),
        ("a.csv", b"path;decision;leak_prob\na;leak;0,5\n", "separated by ';'.*with commas"),
        ("a.csv", b"path\tdecision\na\tleak\n", "separated by"),
        ("a.csv", b"site,label\n1,leak\n", "no rows of"),
        ("a.csv", b"", "no rows of"),
        ("a.parquet", b"PAR1 and no more", "damaged"),
        ("none.csv", None, "No such file"),
        ("none.parquet", None, "none.parquet"),
    ],
)
def test_what_cannot_be_read_is_named(
    tmp_path: Path, name: str, content: bytes | None, words: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=words) as raised:
        list(read_columns(tmp_path / name))
    assert str(tmp_path / name) in str(raised.value)


ROW_NAMES = ["path", "decision", "leak_prob"]


def write(path: Path, *paths: str, names: list[str] = ROW_NAMES) -> None:
    rows = [{"path": name, "decision": "leak", "leak_prob": 0.5, "site": "s"} for name in paths]
    path.write_bytes(part_bytes(rows, names, path.suffix[1:]))


def test_parts_are_read_by_number_and_nothing_else_is(tmp_path: Path) -> None:
    write(tmp_path / "part-100000.csv", "z.wav")
    write(tmp_path / "part-00002.csv", "c.wav")
    write(tmp_path / "part-00000.csv", "a.wav", "b.wav")
    (tmp_path / ".part-00003.csv.17").write_text("half")
    (tmp_path / "part-00002.csv.changed").write_text("half")
    (tmp_path / "parts.json").write_text("{}")
    assert [(number, path.name) for number, path in part_files(tmp_path)] == [
        (0, "part-00000.csv"),
        (2, "part-00002.csv"),
        (100000, "part-100000.csv"),
    ]
    assert read_rows(tmp_path)["path"].tolist() == ["a.wav", "b.wav", "c.wav", "z.wav"]
    assert [len(part["path"]) for part in each_part(tmp_path)] == [2, 1, 1]


def test_a_column_that_one_part_has_is_blank_in_the_others(tmp_path: Path) -> None:
    write(tmp_path / "part-00000.csv", "a.wav", names=["path", "decision"])
    write(tmp_path / "part-00001.parquet", "b.wav", names=[*ROW_NAMES, "site"])
    columns = read_rows(tmp_path)
    assert columns["site"].tolist() == ["", "s"]
    np.testing.assert_array_equal(columns["leak_prob"], [np.nan, 0.5])
    assert list(read_rows(tmp_path, ["decision"])) == ["decision"]


def test_rows_of_one_csv(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("path,decision,leak_prob\na.wav,leak,0.5\nb.wav,,\n")
    (part,) = each_part(tmp_path / "rows.csv")
    assert part["path"].tolist() == ["a.wav", "b.wav"]
    assert part["decision"].tolist() == ["leak", ""]
    np.testing.assert_array_equal(part["leak_prob"], [0.5, np.nan])


@pytest.mark.parametrize("name", ["", "rows.json", "missing.csv"])
def test_a_place_without_rows_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=str(tmp_path)):
        read_rows(tmp_path / name)
