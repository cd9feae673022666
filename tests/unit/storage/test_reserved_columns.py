"""Columns that leakdet writes itself."""

from leakdet.scoring.row_writers import row_columns
from leakdet.storage.reserved_columns import is_reserved


def test_every_column_of_a_row_is_reserved() -> None:
    assert all(map(is_reserved, row_columns(True, ["leak", "ok"])))
    assert not any(map(is_reserved, ("site", "recorded_at", "logger", "lat", "lon", "pipe")))
