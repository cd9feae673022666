"""history.csv has a row per check and every column that any of them has."""

import csv
from pathlib import Path

from leakdet.training.callbacks.history import write_rows


def test_columns_come_in_the_order_of_their_first_row(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    write_rows(path, [{"epoch": 0.0, "a": 1.5}, {"epoch": 1.0, "b": "x, y"}])
    assert path.read_text().splitlines()[0] == "epoch,a,b"
    with path.open(newline="", encoding="utf-8") as file:
        assert list(csv.DictReader(file)) == [
            {"epoch": "0.0", "a": "1.5", "b": ""},
            {"epoch": "1.0", "a": "", "b": "x, y"},
        ]
