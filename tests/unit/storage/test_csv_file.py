import csv
from pathlib import Path

import pytest

from leakdet.errors import InputError
from leakdet.storage.csv_file import read_csv, write_csv


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
