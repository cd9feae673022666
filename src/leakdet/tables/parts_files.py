"""Parts of rows as Parquet files: written whole, read again as rows."""

import csv
import io
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from leakdet.core.errors import InputError

FORMATS = ("csv", "parquet")
COUNTS = {"channel", "windows", "leak_windows", "source_rate_hz"}  # whole numbers
MEASURES = {"leak_prob", "threshold", "duration_s", "familiarity", "p10_prob"}
MEASURES |= {"quiet_level_dbfs", "mains_hum_db"}
CLASS = "prob_"  # how the columns of classes begin
AT_A_TIME = 4_096  # rows of a CSV

Columns = dict[str, npt.NDArray[Any]]


def is_number(name: str) -> bool:
    """True for a column of numbers; all others hold text, those of a manifest too."""
    return name in COUNTS or name in MEASURES or name.startswith(CLASS)


def require_format(kind: str) -> None:
    """Raise `InputError` where Parquet is asked for and cannot be written."""
    if kind == "parquet" and find_spec("pyarrow") is None:
        raise InputError(
            "Parquet needs pyarrow, which is not installed: pip install 'leakdet[parquet]'; "
            "csv works without it."
        )


def part_bytes(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], kind: str) -> bytes:
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


def _parquet_bytes(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> bytes:
    import pyarrow
    from pyarrow import parquet

    fields, arrays = [], []
    for name in columns:
        values = [row.get(name) for row in rows]
        if is_number(name):
            kind = pyarrow.int64() if name in COUNTS else pyarrow.float64()
        else:
            kind, values = pyarrow.string(), [_printable(value) for value in values]
        fields.append(pyarrow.field(name, kind))
        arrays.append(pyarrow.array(values, kind))
    written = io.BytesIO()
    table = pyarrow.Table.from_arrays(arrays, schema=pyarrow.schema(fields))
    parquet.write_table(table, written, compression="zstd")
    return written.getvalue()


def _printable(value: object) -> str | None:
    """Text without the stand-ins of bytes that are no UTF-8."""
    if value is None:
        return None
    return str(value).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def read_columns(path: Path, names: Sequence[str] | None = None) -> Iterator[Columns]:
    """Columns of a file of rows, at most 4,096 rows of a CSV at a time; None: all that it has.

    Numbers are float64, NaN where blank; text is an array of `str`, "" where blank. Of `names`,
    those that the file lacks are left out.
    """
    if path.suffix.lower() == ".parquet":
        require_format("parquet")
        yield from _parquet_columns(path, names)
    else:
        yield from _csv_columns(path, names)


def _csv_columns(path: Path, names: Sequence[str] | None) -> Iterator[Columns]:
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
            reader = csv.reader(file, strict=True)
            header = next(reader, [])
            _check_header(path, header)
            taken = [(at, name) for at, name in enumerate(header) if names is None or name in names]
            none_yet = True
            while (block := list(islice(reader, AT_A_TIME))) or none_yet:
                none_yet = False
                rows = list(filter(None, block))  # editors leave blank lines
                if {len(row) for row in rows} - {len(header)}:
                    raise InputError(
                        f"{path}: a row up to line {reader.line_num} has not the {len(header)} "
                        "fields of the first line; the file is damaged."
                    )
                values = list(zip(*rows, strict=True)) or [()] * len(header)
                yield {name: _array(path, name, values[at]) for at, name in taken}
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from error
    except csv.Error as error:
        raise InputError(f"{path}: not CSV ({error}); the file is damaged.") from error


def _check_header(path: Path, header: Sequence[str]) -> None:
    if len(header) == 1 and (other := max(";\t|", key=header[0].count)) in header[0]:
        raise InputError(
            f"{path}: its fields are separated by {other!r}, as some spreadsheets save them. Save "
            "it with commas and decimal points, or name the file that predict wrote."
        )
    if not {"path", "decision"} <= {*header}:
        raise InputError(
            f"{path}: these are no rows of leakdet predict; they have at least the columns path "
            "and decision."
        )


def _array(path: Path, name: str, values: Sequence[str]) -> npt.NDArray[Any]:
    if not is_number(name):
        # decisions, models and sites are few, and paths many
        return np.array(values if name == "path" else list(map(sys.intern, values)), object)
    try:
        return np.array([float(value) if value else np.nan for value in values], np.float64)
    except ValueError as error:
        bad = next(value for value in values if value and not _is_float(value))
        comma = " with a decimal point" if _is_float(bad.replace(",", ".")) else ""
        raise InputError(
            f"{path}: column {name} holds {bad!r}, which is no number; write numbers{comma}, or "
            "nothing."
        ) from error


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _parquet_columns(path: Path, names: Sequence[str] | None) -> Iterator[Columns]:
    import pyarrow
    from pyarrow import parquet

    try:
        header = parquet.read_schema(path).names
        _check_header(path, header)
        taken = [name for name in header if names is None or name in names]
        table = parquet.read_table(path, columns=taken, use_threads=False)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}).") from error
    except pyarrow.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path}: not Parquet ({reason}); the file is damaged.") from error
    arrays: Columns = {}
    for name in taken:
        column = table.column(name)
        if is_number(name):
            arrays[name] = column.cast(pyarrow.float64()).to_numpy()
        else:
            coded = column.cast(pyarrow.string()).fill_null("").combine_chunks().dictionary_encode()
            words = np.array(coded.dictionary.to_pylist(), object)
            arrays[name] = words[coded.indices.to_numpy()] if len(coded) else words
    yield arrays


PART = re.compile(r"part-(\d{5,})\.(csv|parquet)")


def part_files(folder: Path) -> list[tuple[int, Path]]:
    """The parts in a folder and their numbers, by number."""
    found = ((PART.fullmatch(path.name), path) for path in folder.iterdir())
    return sorted((int(match[1]), path) for match, path in found if match)


def each_part(place: Path, names: Sequence[str] | None = None) -> Iterator[Columns]:
    """Columns of one part after the other, as `read_columns` gives them; memory is that of one.

    `place` is a folder of parts or a file of rows. Of `names`, what the rows lack is left out.
    """
    if place.is_dir():
        files = [path for _, path in part_files(place)]
        if not files:
            raise InputError(
                f"{place}: there are no parts in this folder; leakdet predict --parts {place} "
                "writes them."
            )
    elif place.suffix.lower() in (".csv", ".parquet"):
        files = [place]
    elif not place.exists():
        raise InputError(f"{place}: there is no such folder, and no such file.")
    else:
        raise InputError(f"{place}: name a folder of parts, or a .csv file that predict wrote.")
    for file in files:
        yield from read_columns(file, names)


def read_rows(place: Path, names: Sequence[str] | None = None) -> Columns:
    """The columns of all rows, in their order; the rest as `each_part`.

    A column that only some of the parts have is blank in the others.
    """
    parts = list(each_part(place, names))
    columns = dict.fromkeys(name for part in parts for name in part)
    return {name: np.concatenate([_filled(part, name) for part in parts]) for name in columns}


def _filled(part: Columns, name: str) -> npt.NDArray[Any]:
    if name in part:
        return part[name]
    rows = len(next(iter(part.values()), ()))
    return np.full(rows, np.nan) if is_number(name) else np.full(rows, "", object)
