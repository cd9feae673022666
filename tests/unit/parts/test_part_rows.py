"""Rows of a folder of parts, or of one file, are read again in their order."""

from pathlib import Path

import numpy as np
import pytest

from leakdet.errors import InputError
from leakdet.parts.part_file import part_bytes
from leakdet.parts.part_rows import each_part, part_files, read_rows

NAMES = ["path", "decision", "leak_prob"]


def write(path: Path, *paths: str, names: list[str] = NAMES) -> None:
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
    write(tmp_path / "part-00001.parquet", "b.wav", names=[*NAMES, "site"])
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
