"""Writes rows of predict as CSV or JSON lines, to a file or a pipe, never half a row."""

import csv
import json
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol, runtime_checkable

from leakdet.core.errors import InputError
from leakdet.core.files import flush_to_disk, require_space
from leakdet.core.messages import LOG
from leakdet.scoring.verdict import Verdict

if TYPE_CHECKING:
    from leakdet.detection.detector import MelDetector

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
        os.fsync(file.fileno())
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
    with suppress(OSError):  # a file system that cannot
        flush_to_disk(target.parent)  # the new name too


def _locked(out: Path, partial: Path) -> IO[str]:
    while True:
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
            if _is_at(file, partial):
                file.truncate(0)
                return file
        file.close()


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


FORMATS = {".csv": "csv", ".txt": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
ROW_BYTES = 250  # about as much, with a path of usual length
WINDOW_COLUMNS = ("path", "window_start_s", "window_end_s", "leak_prob")

Write = Callable[[Verdict], None]


def check_windows(out: Path | None, kind: str, windows: bool) -> None:
    """Refuse to write windows where there is no file that they could be beside."""
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
    """csv or jsonl: as given, else by the ending of the file's name, else csv."""
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
