"""Verdicts as rows of CSV or JSON lines, written as they come."""

import csv
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Protocol, runtime_checkable

from leakdet.errors import InputError
from leakdet.scoring.verdict import Verdict
from leakdet.storage.atomic import whole_file

COLUMNS = tuple(key for key in Verdict(None, None, None, 0.0).to_dict() if key != "timeline")
WINDOW_COLUMNS = ("path", "window_start_s", "window_end_s", "leak_prob")

Write = Callable[[Verdict], None]


@runtime_checkable
class Text(Protocol):
    """A file of text, to be written."""

    def write(self, text: str, /) -> object: ...


@contextmanager
def verdict_writer(out: Path | None, kind: str, windows: bool) -> Iterator[Write]:
    """A function that writes one verdict; `kind` is csv or jsonl, `out=None` standard output.

    `windows` writes the windows too: into the rows of jsonl, beside a CSV file `NAME.csv` into
    `NAME.windows.csv`. A file gets its name when it is closed, with what was written until then
    where the work was interrupted.

    Raises:
        InputError: the file cannot be written.
    """
    if out is None and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="surrogateescape")  # names of files may hold any bytes
    with _rows_file(out) if out else nullcontext(sys.stdout) as rows:
        if kind == "jsonl":
            yield lambda verdict: _write_json_line(rows, verdict, windows)
        elif windows and out:
            with _rows_file(out.with_name(f"{out.stem}.windows.csv")) as timeline:
                yield _csv_writer(rows, timeline)
        else:
            yield _csv_writer(rows)


def _csv_writer(rows: Text, timeline: Text | None = None) -> Write:
    row_writer = csv.DictWriter(rows, COLUMNS, extrasaction="ignore")
    row_writer.writeheader()
    if timeline is None:
        return lambda verdict: row_writer.writerow(verdict.to_dict())
    window_writer = csv.writer(timeline)
    window_writer.writerow(WINDOW_COLUMNS)

    def write(verdict: Verdict) -> None:
        row_writer.writerow(verdict.to_dict())
        window_writer.writerows((verdict.path, *window) for window in verdict.windows)

    return write


def _write_json_line(rows: Text, verdict: Verdict, windows: bool) -> None:
    row = verdict.to_dict()
    if not windows:
        del row["timeline"]
    rows.write(json.dumps(row, ensure_ascii=False) + "\n")


@contextmanager
def _rows_file(path: Path) -> Iterator[Text]:
    with whole_file(path, keep_partial=True) as partial:
        try:
            file = partial.open("w", newline="", encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            raise InputError(f"--out {path}: cannot be written ({error.strerror}).") from error
        with file:
            yield file
