"""A store's folder by what is in it beside the mel; no HDF5 is loaded."""

import csv
import json
import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from leakdet.errors import InputError, first_few


def require_store(store: Path) -> None:
    """Raise `InputError` where `store` is no folder with HDF5 files."""
    if not store.exists():
        if re.match("[a-z][a-z0-9+.-]+:/", str(store)):  # a path has lost one of its slashes
            raise InputError(
                f"{store}: stores are read from a disk; copy it there first. Training copies the "
                "one that data.store= names by its URL."
            )
        raise InputError(
            f"{store}: there is no such store. Make one of recordings: leakdet build "
            f"source=RECORDINGS out={store}; or of synthetic ones: source=demo."
        )
    if not store.is_dir():
        raise InputError(f"{store}: a store is a folder, and this is a file.")
    if not any(store.glob("*.[hH]5")):
        if inside := sorted({str(path.parent) for path in store.glob("*/*.[hH]5")}):
            raise InputError(
                f"{store}: holds no HDF5 files; there are stores in it, one of which may be meant: "
                f"{first_few(inside, 5)}."
            )
        raise InputError(
            f"{store}: holds no HDF5 files, so it is no store. If it holds recordings, make a "
            f"store of them: leakdet build source={store} out=store"
        )


def group_columns(store: Path) -> list[str]:
    """The group columns of a store by recordings.csv; none where it has no such file."""
    try:
        with (store / "recordings.csv").open(newline="", encoding="utf-8") as file:
            columns = next(csv.reader(file), [])
        return columns[columns.index("path") + 1 : columns.index("weight")]
    except (OSError, ValueError):
        return []


def check_columns(store: Path, named: Sequence[str], setting: str) -> None:
    """Raise `InputError` for a column that a store with recordings.csv does not have."""
    columns = group_columns(store)
    for column in named if columns else ():
        if column not in columns:
            raise unknown_column(column, columns, setting)


def unknown_column(column: str, columns: Sequence[str], setting: str) -> InputError:
    """The error for a column that is none of a store's; `setting` names it."""
    close = get_close_matches(column, columns, 1, 0.5)
    hint = f" Did you mean {close[0]}?" if close else ""
    return InputError(
        f"{setting}: {column!r} is no group column of this store; it has "
        f"{first_few(sorted(columns)) or 'none'}.{hint}"
    )


def build_facts(store: Path) -> dict[str, Any]:
    """The content of build.json, how the store was made; empty where it is missing or damaged."""
    try:
        content = json.loads((store / "build.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
