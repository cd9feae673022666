"""Writes tables: CSV as a whole, rows of predict one by one to a file or pipe, parts as bytes."""

import csv
import io
import json
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Protocol, runtime_checkable

from leakdet.core.errors import InputError, install_command
from leakdet.core.files import flush_names, require_space, system_asked, whole_file
from leakdet.core.messages import LOG
from leakdet.tables.schema import SPAN, TIMELINE, WINDOW_COLUMNS, column_type, defused, rounded
from leakdet.tables.workbooks import require_openpyxl, workbook_writer

Row = Mapping[str, Any]


def write_csv(
    path: Path,
    rows: Iterable[Row],
    columns: Sequence[str] | None = None,
    for_people: bool = False,
) -> None:
    """Write rows under `columns`; None: under their keys, in the order of first appearance.

    A row that lacks a column has a blank there. Names of files may hold any bytes. No cell is a
    formula. `for_people`: a spreadsheet opens it on a double click, by its byte order mark, and
    numbers are rounded.
    """
    if for_people:
        rows = ({name: rounded(name, row[name]) for name in row} for row in rows)
    rows = ({name: defused(row[name]) for name in row} for row in rows)
    if columns is None:
        rows = list(rows)
        columns = list(dict.fromkeys(name for row in rows for name in row))
    with (
        whole_file(path) as partial,
        partial.open(
            "w",
            newline="",
            encoding="utf-8-sig" if for_people else "utf-8",
            errors="surrogateescape",
        ) as file,
    ):
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)


PARTIAL = ".partial"


def check_output(out: Path, about_bytes: int = 0) -> None:
    """Check before any work that `out` can be written, and that its disk has room."""
    if not is_regular(out):
        return
    folder = Path(os.path.realpath(out)).parent
    if not folder.is_dir():
        raise InputError(f"--out {out}: there is no folder {folder}; make it first.")
    for place in (folder, out):
        if place.exists() and not os.access(place, os.W_OK):
            raise InputError(f"--out {out}: {place} may not be written; choose another place.")
    require_space(folder, about_bytes, f"--out {out}")


def is_regular(out: Path) -> bool:
    """True if `out` is, or will be, a regular file: no device or pipe, nothing that is open."""
    if _open_descriptor(out) is not None:
        return False
    try:
        return stat.S_ISREG(out.stat().st_mode)
    except OSError:
        return True


@contextmanager
def output_file(out: Path) -> Iterator[IO[str]]:
    """A text file to write rows to. A device or pipe is written to; a link leads to its file.

    So is what the caller has opened, such as `/dev/stdout`, at its own position: it may append.

    A regular file gets its name when it is whole. Until then, and where the work ends early, its
    rows are in `NAME.partial`, which one process at a time may write.
    """
    if not is_regular(out):
        with _opened(out, out, os.O_WRONLY) as file:
            yield file
        return
    target = Path(os.path.realpath(out))
    partial = target.with_name(target.name + PARTIAL)
    file = _locked(out, partial)
    try:
        yield file
        file.flush()
        with system_asked(out, "flush it to the disk (fsync)"):
            os.fsync(file.fileno())
        with system_asked(out, "replace a file by renaming another"):
            partial.replace(target)
    except BaseException:
        with suppress(OSError):  # a full disk
            file.flush()
        if partial.exists() and partial.stat().st_size:
            LOG.warning("%s holds the rows that were written", partial)
        else:
            partial.unlink(missing_ok=True)
        raise
    finally:
        with suppress(OSError):
            file.close()
    flush_names(target.parent)


def _locked(out: Path, partial: Path) -> IO[str]:
    for tries_left in reversed(range(10)):
        file = _opened(out, partial, os.O_RDWR | os.O_CREAT)
        try:
            flock(file, LOCK_EX | LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise InputError(
                f"--out {out}: another process is writing this file; choose another name, or wait."
            ) from error
        except OSError:  # a file system without locks
            pass
        # The other process may have renamed the file between opening and locking.
        with suppress(FileNotFoundError):
            # a network file system may give one file two numbers
            if _is_at(file, partial) or not tries_left:
                file.truncate(0)
                return file
        file.close()
    raise InputError(f"--out {out}: {partial} was removed while it was opened; try again.")


def _is_at(file: IO[str], path: Path) -> bool:
    return os.path.samestat(os.fstat(file.fileno()), path.stat())


def _opened(out: Path, path: Path, flags: int) -> IO[str]:
    number = _open_descriptor(path)
    try:
        descriptor = os.open(path, flags, 0o666) if number is None else os.dup(number)
    except OSError as error:
        raise InputError(f"--out {out}: cannot be written ({error.strerror}).") from error
    return os.fdopen(descriptor, "w", newline="", encoding="utf-8", errors="surrogateescape")


def _open_descriptor(out: Path) -> int | None:
    """The number behind `/dev/stdout` or `/dev/fd/N`, through links; None for every other path."""
    descriptors = os.path.realpath("/proc/self/fd")
    for _ in range(8):  # links that go round are told when the file is opened
        if not out.is_symlink():
            return None
        if os.path.realpath(out.parent) == descriptors:
            return int(out.name)
        out = out.parent / out.readlink()
    return None


FORMATS = {".csv": "csv", ".txt": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".xlsx": "xlsx"}
ROW_BYTES = 250  # about as much, with a path of usual length

WriteRow = Callable[[Row], None]


def check_windows(out: Path | None, kind: str, windows: bool) -> None:
    """Refuse to write windows where there is no file that they could be beside."""
    if windows and kind == "xlsx":
        raise InputError(f"--out {out}: --windows has no room in a workbook; name a .csv file.")
    if windows and kind == "csv" and not (out and is_regular(out)):
        raise InputError(
            "--windows with csv needs --out FILE, since it writes a second file beside it; "
            "--format jsonl has the windows in its rows."
        )


@runtime_checkable
class TextFile(Protocol):
    """A text file that is open for writing."""

    def write(self, text: str, /) -> object: ...


@contextmanager
def row_writer(
    out: Path | None, kind: str, windows: bool, header: Sequence[str]
) -> Iterator[WriteRow]:
    """A function that writes one row; `kind` is csv, jsonl or xlsx, `out=None` standard output.

    `header` names the columns of a CSV, as `row_columns` gives them. `windows` writes
    the windows too: into the rows of jsonl, beside a CSV file `NAME.csv` into `NAME.windows.csv`.
    See `output_file` for when a file gets its name.
    """
    if kind == "xlsx" and out:
        with workbook_writer(out, header, "verdicts") as write:
            yield write
        return
    with output_file(out) if out else nullcontext(sys.stdout) as rows:
        if kind == "jsonl":
            yield lambda row: _write_json_line(rows, row, windows)
        elif windows and out:
            with output_file(windows_file(out)) as timeline:
                yield _csv_writer(rows, header, timeline)
        else:
            yield _csv_writer(rows, header)


def windows_file(out: Path) -> Path:
    """The file of windows beside a CSV of rows."""
    return out.with_name(f"{out.stem}.windows.csv")


def format_of(out: Path | None, given: str | None) -> str:
    """csv, jsonl or xlsx: as given, else by the ending of the file's name, else csv."""
    if given or out is None or not is_regular(out):
        return given or "csv"
    kind = FORMATS.get(out.suffix.lower(), "" if out.suffix else "csv")
    if not kind:
        raise InputError(
            f"--out {out}: rows are written as CSV, JSON lines or an Excel workbook; end the name "
            "with .csv, .jsonl or .xlsx, or name the --format."
        )
    if kind == "xlsx":
        require_openpyxl(out)
    return kind


def _csv_writer(
    rows: TextFile, header: Sequence[str], timeline: TextFile | None = None
) -> WriteRow:
    writer = csv.DictWriter(rows, header, extrasaction="ignore")
    writer.writeheader()
    if timeline is None:
        return lambda row: writer.writerow(row)
    window_writer = csv.writer(timeline)
    first, *others = WINDOW_COLUMNS
    names = [first, *(name for name in ("channel", *SPAN) if name in header)]
    window_writer.writerow([*names, *others])

    def write(row: Row) -> None:
        writer.writerow(row)
        recording = [row.get(name) for name in names]
        window_writer.writerows((*recording, *window) for window in row[TIMELINE])

    return write


def _write_json_line(rows: TextFile, row: Row, windows: bool) -> None:
    content = {name: value for name, value in row.items() if windows or name != TIMELINE}
    rows.write(json.dumps(content, ensure_ascii=False) + "\n")


def require_format(kind: str) -> None:
    """Raise `InputError` where Parquet is asked for and cannot be written."""
    if kind == "parquet" and find_spec("pyarrow") is None:
        raise InputError(
            "Parquet needs pyarrow, which is not installed: "
            f"{install_command('parquet')}; csv works without it."
        )


def part_bytes(rows: Sequence[Row], columns: Sequence[str], kind: str) -> bytes:
    """The file of these rows; what a row lacks is blank. Names of files may hold any bytes.

    In Parquet, numbers are float64 or int64, and bytes that are no text are escaped as in Python.
    """
    if kind == "parquet":
        return _parquet_bytes(rows, columns)
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, restval="", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode("utf-8", "surrogateescape")


def _parquet_bytes(rows: Sequence[Row], columns: Sequence[str]) -> bytes:
    import pyarrow
    from pyarrow import parquet

    arrays = {}
    for name in columns:
        values, kind = [row.get(name) for row in rows], column_type(name)
        if kind == "string":
            values = [_printable(value) for value in values]
        arrays[name] = pyarrow.array(values, getattr(pyarrow, kind)())
    content = io.BytesIO()
    parquet.write_table(pyarrow.table(arrays), content, compression="zstd")
    return content.getvalue()


def _printable(value: object) -> str | None:
    """Text without the stand-ins of bytes that are no UTF-8."""
    if value is None:
        return None
    return str(value).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
