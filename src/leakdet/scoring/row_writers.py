"""Writes verdicts as rows of CSV or JSON lines; `Verdict.to_dict` says what a row holds."""

import csv
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from leakdet.errors import InputError
from leakdet.scoring.output_file import is_regular, output_file
from leakdet.scoring.verdict import Verdict

if TYPE_CHECKING:
    from leakdet.detection.detector import MelDetector

FORMATS = {".csv": "csv", ".txt": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
ROW_BYTES = 250  # about as much, with a path of usual length
WINDOW_COLUMNS = ("path", "window_start_s", "window_end_s", "leak_prob")

Write = Callable[[Verdict], None]


def check_windows(out: Path | None, kind: str, windows: bool) -> None:
    """Refuse to write windows where there is no file that they could be beside.

    Raises:
        InputError: CSV without a regular file, or on standard output.
    """
    if windows and kind == "csv" and not (out and is_regular(out)):
        raise InputError(
            "--windows with csv needs --out FILE, since it writes a second file beside it; "
            "--format jsonl has the windows in its rows."
        )


def row_columns(
    by_channel: bool = False, classes: Sequence[str] = (), listed: Sequence[str] = ()
) -> list[str]:
    """The columns of a CSV of rows; channel, classes and columns of a list where these are told."""
    told = Verdict(
        None,
        None,
        None,
        0.0,
        channel=int(by_channel),
        class_prob=dict.fromkeys(classes),
        columns=dict.fromkeys(listed, ""),
    )
    return [key for key in told.to_dict() if key != "timeline"]


def columns_by(detector: "MelDetector", listed: Sequence[str] = ()) -> list[str]:
    """The columns of rows by this model, with those of a list."""
    signal, labels = detector.signal, detector.labels
    by_channel = signal is not None and signal.channels == "each"
    return row_columns(by_channel, labels.names if labels.tells_classes else (), listed)


@runtime_checkable
class TextFile(Protocol):
    """A text file that is open for writing."""

    def write(self, text: str, /) -> object: ...


@contextmanager
def verdict_writer(
    out: Path | None,
    kind: str,
    windows: bool,
    header: Sequence[str],
) -> Iterator[Write]:
    """A function that writes one verdict; `kind` is csv or jsonl, `out=None` standard output.

    `header` names the columns of a CSV, as `row_columns` gives them. `windows` writes
    the windows too: into the rows of jsonl, beside a CSV file `NAME.csv` into `NAME.windows.csv`.
    See `output_file` for when a file gets its name.

    Raises:
        InputError: the file cannot be written.
    """
    with output_file(out) if out else nullcontext(sys.stdout) as rows:
        if kind == "jsonl":
            yield lambda verdict: _write_json_line(rows, verdict, windows)
        elif windows and out:
            with output_file(windows_file(out)) as timeline:
                yield _csv_writer(rows, header, timeline)
        else:
            yield _csv_writer(rows, header)


def windows_file(out: Path) -> Path:
    """The file of windows beside a CSV of rows."""
    return out.with_name(f"{out.stem}.windows.csv")


def format_of(out: Path | None, given: str | None) -> str:
    """csv or jsonl: as given, else by the ending of the file's name, else csv.

    Raises:
        InputError: the ending is one of neither.
    """
    if given or out is None or not is_regular(out):
        return given or "csv"
    kind = FORMATS.get(out.suffix.lower(), "" if out.suffix else "csv")
    if not kind:
        raise InputError(
            f"--out {out}: rows are written as CSV or JSON lines; end the name with .csv or "
            ".jsonl, or name the --format."
        )
    return kind


def _csv_writer(rows: TextFile, header: Sequence[str], timeline: TextFile | None = None) -> Write:
    row_writer = csv.DictWriter(rows, header, extrasaction="ignore")
    row_writer.writeheader()
    if timeline is None:
        return lambda verdict: row_writer.writerow(verdict.to_dict())
    window_writer = csv.writer(timeline)
    by_channel, (first, *others) = "channel" in header, WINDOW_COLUMNS
    window_writer.writerow([first, *["channel"] * by_channel, *others])

    def write(verdict: Verdict) -> None:
        row_writer.writerow(verdict.to_dict())
        place = (verdict.path, *[verdict.channel] * by_channel)
        window_writer.writerows((*place, *window) for window in verdict.windows)

    return write


def _write_json_line(rows: TextFile, verdict: Verdict, windows: bool) -> None:
    row = verdict.to_dict()
    if not windows:
        del row["timeline"]
    rows.write(json.dumps(row, ensure_ascii=False) + "\n")
