"""Rows that go to a URL."""

import json
import re
from pathlib import Path

import fsspec
import pytest
from tests.remote_stores import FlakyStore

from leakdet.core.errors import InputError
from leakdet.core.locations import RemoteFile
from leakdet.scoring.prediction import local_rows
from leakdet.tables.schema import WINDOW_COLUMNS

OUT = RemoteFile("flaky://net/rows/v.csv")
ROWS = "path,decision\na.wav,leak\n"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def write(local: Path | None) -> None:
    assert local is not None
    local.write_text(ROWS)
    Path(f"{local}.json").write_text(json.dumps({"rows": local.name}))
    local.with_name("v.windows.csv").write_text(",".join(WINDOW_COLUMNS))


def there() -> list[str]:
    return sorted(path.rpartition("/")[2] for path in fsspec.filesystem("flaky").find("/net/rows"))


def test_a_local_file_is_left_alone() -> None:
    for out in (Path("v.csv"), None):
        with local_rows(out) as local:
            assert local is out


def test_rows_are_put_with_what_is_beside_them(flaky: type[FlakyStore], temporary: Path) -> None:
    for _ in range(2):  # the second time, they replace those of the first
        with local_rows(OUT, windows=True) as local:
            assert "v.csv.partial" in there()
            write(local)
        assert there() == ["v.csv", "v.csv.json", "v.windows.csv"]
    assert OUT.read_bytes() == ROWS.encode()
    assert list(temporary.iterdir()) == []


def test_what_predict_did_not_write_is_not_replaced(
    flaky: type[FlakyStore], temporary: Path
) -> None:
    fsspec.filesystem("flaky").pipe_file("/net/rows/v.csv", b"name,age\nann,3\n")
    with (
        pytest.raises(InputError, match=r"flaky://net/rows/v\.csv would be replaced"),
        local_rows(OUT),
    ):
        pass
    assert there() == ["v.csv"]
    assert list(temporary.iterdir()) == []


def test_a_place_that_cannot_be_written_is_told_before_any_work(
    flaky: type[FlakyStore], temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("Access Denied")

    monkeypatch.setattr(FlakyStore, "put_file", refuse)
    with (
        pytest.raises(InputError, match=r"^--out flaky://net/rows/v.csv: access is forbidden"),
        local_rows(OUT),
    ):
        raise AssertionError
    fsspec.filesystem("flaky").pipe_file("/net/rows/v.csv/a", b"")
    for folder in (OUT, RemoteFile("flaky://net/")):
        with (
            pytest.raises(InputError, match="a folder; name a file"),
            local_rows(folder),
        ):
            raise AssertionError
    assert list(temporary.iterdir()) == []


def test_rows_stay_where_the_transfer_fails(
    flaky: type[FlakyStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise TimeoutError

    def work() -> None:
        with local_rows(OUT) as local:
            write(local)
            monkeypatch.setattr(FlakyStore, "put_file", refuse)

    with pytest.raises(InputError, match="rows are whole in") as refused:
        work()
    (copy,) = re.findall(r"/\S+(?=;)", str(refused.value))
    assert Path(copy).read_text() == ROWS
    assert there() == []


def test_errors_of_the_work_name_the_url(flaky: type[FlakyStore], temporary: Path) -> None:
    with (
        pytest.raises(InputError, match=r"^--out flaky://net/rows/v.csv: odd$"),
        local_rows(OUT) as local,
    ):
        raise InputError(f"--out {local}: odd")
    assert there() == []
    assert list(temporary.iterdir()) == []
