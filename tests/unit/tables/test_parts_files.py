from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from leakdet.core.errors import InputError
from leakdet.tables.parts_files import (
    each_part,
    part_bytes,
    part_files,
    read_columns,
    read_rows,
    require_format,
)

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


def test_parquet_holds_numbers_as_numbers(tmp_path: Path) -> None:
    from pyarrow import parquet

    path = tmp_path / "part.parquet"
    path.write_bytes(part_bytes(ROWS, NAMES, "parquet"))
    kinds = {field.name: str(field.type) for field in parquet.read_schema(path)}
    assert kinds == {
        "path": "string",
        "site": "string",
        "decision": "string",
        "leak_prob": "double",
        "windows": "int64",
        "flags": "string",
        "prob_leak": "double",
    }
    assert parquet.read_metadata(path).row_group(0).column(0).compression == "ZSTD"


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


def test_csv_is_read_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(part_bytes(ROWS * 3, NAMES, "csv"))
    with mock.patch("leakdet.tables.parts_files.AT_A_TIME", 4):
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
        ("a.csv", b"path,decision\na.wav\n", "fields of the first line"),
        ("a.csv", b'path,decision\n"a.wav,leak\n', "not CSV"),
        ("a.csv", b"path,decision,leak_prob\na.wav,leak,high\n", "column leak_prob"),
        ("a.csv", b'path,decision,leak_prob\na,leak,"0,5"\n', "'0,5'.*with a decimal point"),
        ("a.csv", b"path;decision;leak_prob\na;leak;0,5\n", "separated by ';'.*with commas"),
        ("a.csv", b"path\tdecision\na\tleak\n", "separated by"),
        ("a.csv", b"site,label\n1,leak\n", "no rows of leakdet predict"),
        ("a.csv", b"", "no rows of leakdet predict"),
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


def test_parquet_without_its_package_names_the_extra() -> None:
    with (
        mock.patch("leakdet.tables.parts_files.find_spec", return_value=None),
        pytest.raises(InputError, match=r"leakdet\[parquet\]"),
    ):
        require_format("parquet")
    require_format("csv")


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
