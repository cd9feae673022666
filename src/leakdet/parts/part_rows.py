"""Reads the rows of predict again: those of a folder of parts, or of one CSV or Parquet file."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from leakdet.errors import InputError
from leakdet.parts.part_file import Columns, is_number, read_columns

PART = re.compile(r"part-(\d{5,})\.(csv|parquet)")


def part_files(folder: Path) -> list[tuple[int, Path]]:
    """The parts in a folder and their numbers, by number."""
    found = ((PART.fullmatch(path.name), path) for path in folder.iterdir())
    return sorted((int(match[1]), path) for match, path in found if match)


def each_part(place: Path, names: Sequence[str] | None = None) -> Iterator[Columns]:
    """Columns of one part after the other, as `read_columns` gives them; memory is that of one.

    `place` is a folder of parts or a file of rows. Of `names`, what the rows lack is left out.

    Raises:
        InputError: there is no such place, it holds no rows of predict, or a part is damaged.
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
