"""predict replaces what it wrote itself, and nothing else."""

import json
from pathlib import Path

import pytest

from leakdet.errors import InputError
from leakdet.scoring.earlier_rows import check_replaceable
from leakdet.scoring.row_writers import row_columns, verdict_writer
from leakdet.scoring.verdict import Verdict

VERDICT = Verdict("a.wav", "leak", 0.9, 0.5)


def refused(out: Path, windows: bool = False) -> str:
    with pytest.raises(InputError, match="would be replaced, and predict did not write it") as told:
        check_replaceable(out, windows)
    return str(told.value)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_rows_of_an_earlier_run_are_replaced(kind: str, tmp_path: Path) -> None:
    out = tmp_path / f"v.{kind}"
    check_replaceable(out, windows=True)
    with verdict_writer(out, kind, True, row_columns()) as write:
        write(VERDICT)
    (tmp_path / f"v.{kind}.json").write_text(json.dumps({"rows": out.name}))
    check_replaceable(out, windows=kind == "csv")
    for text in ("", "old\n"):  # as mktemp makes it; no table
        out.write_text(text)
        check_replaceable(out, windows=False)


def test_what_predict_did_not_write_is_kept(tmp_path: Path) -> None:
    table = tmp_path / "sites.csv"
    table.write_text("path,label\na.wav,leak\n")
    assert str(table) in refused(table)
    (tmp_path / "metrics.json").write_text(json.dumps({"model": "m"}))
    assert "metrics.json would" in refused(tmp_path / "metrics")
    (tmp_path / "v.windows.csv").write_text("notes\n")
    check_replaceable(tmp_path / "v.csv", windows=False)
    assert "v.windows.csv would" in refused(tmp_path / "v.csv", windows=True)
    for content in (b"\xff\xfe[1]", b"RIFF\0\0\0", b'{\n "a": 1\n}\n'):
        (tmp_path / "other.jsonl").write_bytes(content)
        refused(tmp_path / "other.jsonl")


def test_rows_with_labels_filled_in_are_kept(tmp_path: Path) -> None:
    out = tmp_path / "v.csv"
    with verdict_writer(out, "csv", False, row_columns()) as write:
        write(VERDICT)
    out.write_text(out.read_text().replace("path,", "path,label,", 1))
    refused(out)
