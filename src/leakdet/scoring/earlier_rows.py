"""Whether files where predict will write are its own from an earlier run, and may be replaced."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

from leakdet.errors import InputError
from leakdet.scoring.output_file import is_regular
from leakdet.scoring.row_writers import WINDOW_COLUMNS, windows_file
from leakdet.scoring.sidecar import sidecar_path

TYPED_IN = "label"  # the column that makes rows a manifest


def check_replaceable(out: Path, windows: bool) -> None:
    """Check that predict itself wrote what lies where `out` and the files beside it will be.

    Raises:
        InputError: another command or a user wrote one of them, or filled in labels.
    """
    if not is_regular(out):
        return
    own: list[tuple[Path, Callable[[Path], bool]]] = [(out, _are_rows)]
    own.append((sidecar_path(out), lambda path: _json(path).get("rows") == out.name))
    if windows:
        own.append((windows_file(out), lambda path: {*WINDOW_COLUMNS} <= {*_header(path)}))
    for path, is_own in own:
        if path.is_file() and path.stat().st_size and not is_own(path):
            raise InputError(
                f"--out {out}: {path} would be replaced, and predict did not write it, or it was "
                "edited since; choose another name."
            )


def _are_rows(path: Path) -> bool:
    columns = {*_json(path, first_line=True)} or {*_header(path)}
    if len(columns) < 2 and not any(mark in name for name in columns for mark in "\0{["):
        return True  # no table, no JSON, no binary file: as with a shell's own output
    return {"path", "decision"} <= columns and TYPED_IN not in columns


def _header(path: Path) -> list[str]:
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        return next(csv.reader([file.readline(1 << 16)]), [])


def _json(path: Path, first_line: bool = False) -> dict[str, object]:
    """The object that the file holds, or its first line; empty if it is none."""
    with path.open(encoding="utf-8", errors="replace") as file:
        text = file.readline() if first_line else file.read()
    try:
        content = json.loads(text)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
