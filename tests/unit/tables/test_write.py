import codecs
import csv
import json
import os
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from leakdet.core.errors import InputError
from leakdet.core.messages import LOG
from leakdet.tables.read import read_csv, read_table
from leakdet.tables.schema import WHY, Verdict, Window, is_formula, row_columns
from leakdet.tables.workbooks import write_workbook
from leakdet.tables.write import (
    check_output,
    check_windows,
    format_of,
    is_regular,
    output_file,
    part_bytes,
    require_format,
    row_writer,
    write_csv,
)


def write(out: Path, text: str) -> None:
    with output_file(out) as file:
        file.write(text)


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_a_file_has_its_name_when_it_is_whole(tmp_path: Path) -> None:
    out = tmp_path / "v.csv"
    out.write_text("old")
    with output_file(out) as file:
        file.write("caf\udce9\n")
        assert out.read_text() == "old"
    assert out.read_bytes() == b"caf\xe9\n"
    assert names(tmp_path) == ["v.csv"]


def test_what_was_written_before_an_interruption_is_called_partial(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Hydra disables the logger, and raises the root's level for the tests that follow
    monkeypatch.setattr(LOG, "disabled", False)
    caplog.set_level("WARNING", LOG.name)
    out = tmp_path / "v.csv"
    out.write_text("old")

    def interrupted(text: str) -> None:
        with output_file(out) as file:
            file.write(text)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted("row\n")
    assert (tmp_path / "v.csv.partial").read_text() == "row\n"
    assert "v.csv.partial holds the rows" in caplog.text
    assert out.read_text() == "old"
    with pytest.raises(KeyboardInterrupt):
        interrupted("")  # nothing was written: the older rows are not kept as if they were new
    assert names(tmp_path) == ["v.csv"]


def test_a_link_leads_to_its_file(tmp_path: Path) -> None:
    (tmp_path / "link.csv").symlink_to("real.csv")
    write(tmp_path / "link.csv", "new")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text() == "new"


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert not is_regular(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    write(pipe, "rows\n")
    reader.join(timeout=10)
    assert got == ["rows\n"]
    assert pipe.is_fifo()


def test_what_the_caller_has_opened_is_written_at_its_own_position(tmp_path: Path) -> None:
    file = tmp_path / "all.csv"
    file.write_text("earlier\n")
    (tmp_path / "stdout").symlink_to("/proc/self/fd/1")
    with file.open("a") as appended:
        for out in ("/dev/stdout", str(tmp_path / "stdout"), f"/dev/fd/{appended.fileno()}"):
            code = (
                "import sys; from pathlib import Path\n"
                "from leakdet.tables.write import output_file\n"
                "with output_file(Path(sys.argv[1])) as file: file.write('row\\n')"
            )
            subprocess.run(
                [sys.executable, "-c", code, out],
                env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
                stdout=appended,
                pass_fds=[appended.fileno()],
                check=True,
            )
    assert file.read_text() == "earlier\n" + 3 * "row\n"
    assert sorted(names(tmp_path)) == ["all.csv", "stdout"]


def test_one_process_writes_a_file(tmp_path: Path) -> None:
    out = tmp_path / "v.csv"
    with output_file(out) as file:
        file.write("first\n")
        with pytest.raises(InputError, match="another process"):
            write(out, "second")
    assert out.read_text() == "first\n"


def test_a_dead_process_keeps_no_lock(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path\n"
        "from leakdet.tables.write import output_file\n"
        "with output_file(Path(sys.argv[1])) as file:\n"
        "    file.write('dead'); file.flush(); os._exit(9)"
    )
    out = tmp_path / "v.csv"
    answer = subprocess.run(
        [sys.executable, "-c", code, str(out)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert answer.returncode == 9
    assert (tmp_path / "v.csv.partial").read_text() == "dead"
    write(out, "alive")
    assert out.read_text() == "alive"
    assert names(tmp_path) == ["v.csv"]


def test_a_full_disk_leaves_what_was_there() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with pytest.raises(OSError, match="No space left"):
        write(Path("/dev/full"), "row")


def test_a_place_that_cannot_be_written_is_told_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_output(tmp_path / "v.csv")
    check_output(Path(os.devnull))
    with pytest.raises(InputError, match="no folder"):
        check_output(tmp_path / "none" / "v.csv")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1_000_000))
    with pytest.raises(InputError, match=r"v\.csv: .*2\.0 MB .*1\.0 MB"):
        check_output(tmp_path / "v.csv", 2_000_000)
    monkeypatch.setattr(os, "access", lambda place, mode: False)
    with pytest.raises(InputError, match="may not be written"):
        check_output(tmp_path / "v.csv")


WINDOWS = [Window(0.0, 1.0, 0.9), Window(0.5, 1.5, 0.6)]
VERDICTS = [
    Verdict("a,b\n.wav", "leak", 0.75, 0.5, WINDOWS, 2, 1.5, 16000, ["short", "clipped"]),
    Verdict("empty.wav", None, None, 0.5, error="the file is empty (0 bytes)"),
]


def test_windows_need_a_file_that_they_can_be_beside(tmp_path: Path) -> None:
    check_windows(tmp_path / "rows.csv", "csv", windows=True)
    check_windows(None, "jsonl", windows=True)
    check_windows(None, "csv", windows=False)
    for out in (None, Path("/dev/null")):
        with pytest.raises(InputError, match=r"--windows .*csv .*--out FILE"):
            check_windows(out, "csv", windows=True)


def written(out: Path | None, kind: str, windows: bool) -> None:
    with row_writer(out, kind, windows, row_columns()) as write:
        for verdict in VERDICTS:
            write(verdict.to_dict())


def test_csv_has_a_row_a_verdict_and_blanks_for_what_is_unknown(tmp_path: Path) -> None:
    written(tmp_path / "p.csv", "csv", windows=False)
    with (tmp_path / "p.csv").open(newline="", encoding="utf-8") as file:
        first, second = csv.DictReader(file)
    assert list(first) == row_columns()
    assert (first["path"], first["windows"], first["flags"]) == ("a,b\n.wav", "2", "short,clipped")
    assert (second["decision"], second["leak_prob"], second["windows"]) == ("", "", "")
    assert (second["threshold"], second["error"]) == ("0.5", "the file is empty (0 bytes)")
    assert [path.name for path in tmp_path.iterdir()] == ["p.csv"]


def test_windows_go_beside_the_csv(tmp_path: Path) -> None:
    written(tmp_path / "p.csv", "csv", windows=True)
    with (tmp_path / "p.windows.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [list(row.values()) for row in rows] == [
        ["a,b\n.wav", *map(str, window)] for window in WINDOWS
    ]


@pytest.mark.parametrize("windows", [False, True])
def test_json_lines_go_to_standard_output(
    windows: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    written(None, "jsonl", windows)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for row, verdict in zip(rows, VERDICTS, strict=True):
        expected = json.loads(json.dumps(verdict.to_dict()))
        timeline = expected.pop("timeline")
        assert row == (expected | {"timeline": timeline} if windows else expected)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    out = tmp_path / "nowhere" / "p.csv"
    with pytest.raises(InputError, match=f"--out {out}: cannot be written"):
        written(out, "csv", windows=False)


@pytest.mark.parametrize(
    ("out", "given", "kind"),
    [
        (None, None, "csv"),
        (None, "jsonl", "jsonl"),
        ("a.csv", None, "csv"),
        ("a.JSONL", None, "jsonl"),
        ("a.xlsx", None, "xlsx"),
        ("rows", None, "csv"),
        ("a.dat", "jsonl", "jsonl"),
        ("/dev/null", None, "csv"),
    ],
)
def test_the_name_says_the_format_unless_it_is_given(
    out: str | None, given: str | None, kind: str
) -> None:
    assert format_of(Path(out) if out else None, given) == kind


def test_other_kinds_of_tables_are_refused() -> None:
    with pytest.raises(InputError, match=r"a\.pdf: .*\.csv, \.jsonl or \.xlsx"):
        format_of(Path("a.pdf"), None)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_verdicts_on_channels_say_which(kind: str, tmp_path: Path) -> None:
    out = tmp_path / f"p.{kind}"
    with row_writer(out, kind, True, row_columns(by_channel=True)) as write:
        for channel in (1, 2):
            write(replace(VERDICTS[0], path="a.wav", channel=channel).to_dict())
        write(replace(VERDICTS[1], path="b.wav").to_dict())
    if kind == "jsonl":
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        assert [row.get("channel") for row in rows] == [1, 2, None]
        return
    first, *rows = csv.reader(out.read_text().splitlines())
    assert (first[:3], [row[1] for row in rows]) == (
        ["path", "channel", "decision"],
        ["1", "2", ""],
    )
    first, *rows = csv.reader((tmp_path / "p.windows.csv").read_text().splitlines())
    assert first[:2] == ["path", "channel"]
    assert [row[1] for row in rows] == ["1", "1", "2", "2"]


def test_a_multiclass_model_has_a_column_for_each_class(tmp_path: Path) -> None:
    classes = ("burst, old", "ok")
    told = replace(
        VERDICTS[0], class_name="ok", class_prob=dict(zip(classes, (0.4, 0.6), strict=True))
    )
    failed = replace(VERDICTS[1], class_prob=dict.fromkeys(classes))
    with row_writer(tmp_path / "p.csv", "csv", False, row_columns(classes=classes)) as write:
        write(failed.to_dict())
        write(told.to_dict())
    with (tmp_path / "p.csv").open(newline="", encoding="utf-8") as file:
        first, second = csv.DictReader(file)
    assert (
        list(first)
        == [*row_columns(), "class", "prob_burst, old", "prob_ok"]
        == row_columns(classes=classes)
    )
    assert list(first.values())[-3:] == ["", "", ""]
    assert list(second.values())[-3:] == ["ok", "0.4", "0.6"]


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


NAMES = ["path", "site", "decision", "leak_prob", "windows", "flags", "prob_leak"]
ROWS: list[dict[str, Any]] = [
    {"path": "a,b.wav", "site": "1", "decision": "leak", "leak_prob": 0.25, "windows": 3},
    {"path": "c.wav", "decision": None, "leak_prob": None, "windows": None, "timeline": [1]},
]
ROWS[0] |= {"flags": "clipped,damaged", "prob_leak": 0.125}


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


def test_parquet_without_its_package_names_the_extra() -> None:
    with (
        mock.patch("leakdet.tables.write.find_spec", return_value=None),
        pytest.raises(InputError, match=r"pip install .*\[parquet\]"),
    ):
        require_format("parquet")
    require_format("csv")


CELLS = ["=1+1", "@SUM(A1)", "+49 170", "-cmd|' /C calc'!A0", "'=1", "''@a", "-1.5", "+2", "'s", ""]


def test_no_cell_for_people_is_a_formula_and_each_is_read_as_it_was(tmp_path: Path) -> None:
    """A table of other people's is read as it stands."""
    path = tmp_path / "confirm.csv"
    write_csv(path, [{"path": cell, WHY: "x", "n": -1.50004} for cell in CELLS], for_people=True)
    assert path.read_bytes().startswith(codecs.BOM_UTF8)
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    assert {row["n"] for row in rows} == {"-1.5"}
    written = [row["path"] for row in rows]
    assert [cell for cell in written if is_formula(cell) and cell[0] != "'"] == []
    assert [row["path"] for _, row in read_table(path).rows] == CELLS
    path.write_text("path,n\n'=1,1\n")
    assert read_table(path).rows[0][1]["path"] == "'=1"


def test_no_cell_of_other_tables_is_a_formula_either(tmp_path: Path) -> None:
    path = tmp_path / "recordings.csv"
    write_csv(path, [{"recording_id": cell, "n": -1.5} for cell in CELLS])
    with path.open(newline="", encoding="utf-8") as file:
        written = [row["recording_id"] for row in csv.DictReader(file)]
    assert [cell for cell in written if is_formula(cell) and cell[0] != "'"] == []
    for read in (read_csv(path, "a table"), [row for _, row in read_table(path).rows]):
        assert [row["recording_id"] for row in read] == CELLS


def test_rows_in_a_workbook_are_a_manifest_once_they_have_labels(tmp_path: Path) -> None:
    out = tmp_path / "v.xlsx"
    with row_writer(out, format_of(out, None), False, row_columns()) as write:
        for verdict in VERDICTS:
            write(verdict.to_dict())
    assert [path.name for path in tmp_path.iterdir()] == ["v.xlsx"]
    rows = [row for _, row in read_table(out).rows]
    assert [row["path"] for row in rows] == [verdict.path for verdict in VERDICTS]
    assert [row["leak_prob"] for row in rows] == [
        "" if verdict.leak_prob is None else f"{verdict.leak_prob:g}" for verdict in VERDICTS
    ]
    labels = ["1", "no_leak", "=leak"]
    labelled = [
        {"path": row["path"], "label": label} for row, label in zip(rows, labels, strict=False)
    ]
    write_workbook(out, labelled, ["path", "label"], "labels")
    assert [row for _, row in read_table(out).rows] == labelled
    with pytest.raises(InputError, match="--windows"):
        check_windows(out, "xlsx", True)
