"""A store's folder by what is in it beside the mel, here or behind a URL; no HDF5 is loaded."""

import csv
import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from leakdet.config import DataConfig
from leakdet.core.errors import InputError, first_few
from leakdet.core.files import default_cache, megabytes, require_space, require_writable
from leakdet.core.locations import RemoteFile, parse_location, with_location
from leakdet.core.messages import LOG


def holds_stores(folder: Path) -> bool:
    """True for a store, and for a folder with stores in it."""
    return any(folder.glob("*.[hH]5")) or any(folder.glob("*/*.[hH]5"))


def require_store(store: Path, or_recordings: bool = False) -> None:
    """Raise `InputError` where `store` is no folder with HDF5 files.

    `or_recordings`: the command takes recordings too.
    """
    if not store.exists():
        if re.match("[a-z][a-z0-9+.-]+:/", str(store)):  # a path has lost one of its slashes
            raise InputError(
                f"{store}: stores are read from a disk; copy it there first. Training copies the "
                "one that data.store= names by its URL."
            )
        if or_recordings:
            raise InputError(
                f"{store}: there is no such file or folder. Name a store, or recordings: a folder "
                "of label folders, or a table with path and label. To try synthetic ones: leakdet "
                f"build demo {store}"
            )
        raise InputError(
            f"{store}: there is no such store. Make one of recordings: leakdet build "
            f"RECORDINGS {store}; or of synthetic ones: leakdet build demo {store}."
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
            f"store of them: leakdet build {store} store"
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


BY_BUILD = "build"  # `divided_by` in build.json, where nobody has chosen what is in test

BUILT = "build.json"  # a store has it when it is whole, and another one after each change


def with_local_stores(data: DataConfig) -> DataConfig:
    """The same settings with local copies of the stores that are named by a URL."""
    return replace(
        data,
        store=None if data.store is None else str(local_store(data.store, data.cache)),
        stores=[str(local_store(store, data.cache)) for store in data.stores],
    )


def local_store(store: str, cache: str | None = None) -> Path | str:
    """The copy of a store behind a URL in `cache` (None: the user's); any other one as it is.

    A copy is made once, and again where the store has changed.
    """
    url = parse_location(store)
    if not isinstance(url, RemoteFile):
        return store
    try:
        sizes = url.sizes()
        if not any(name.lower().endswith(".h5") for name in sizes):
            raise InputError("holds no HDF5 files, so it is no store")
        built = (url / BUILT).read_bytes() if BUILT in sizes else b""
    except InputError as error:
        raise with_location(url, error) from error
    key = hashlib.sha256(json.dumps([str(url), sizes]).encode() + built).hexdigest()[:12]
    folder = Path(cache) if cache else default_cache()
    copy = folder / f"remote-{url.name}-{key}"
    if copy.is_dir():
        LOG.info(f"store    {url}: was copied to {copy}")
        return copy
    require_writable(folder)
    size = sum(sizes.values())
    require_space(folder, size, f"{url} is copied to {folder}")
    LOG.info(f"store    {url}: copying {megabytes(size)} to {copy}, to be read from a disk")
    _copy(url, sizes, copy)
    return copy


def _copy(url: RemoteFile, sizes: Mapping[str, int], copy: Path) -> None:
    """Copy all files; the folder gets its name when it is whole."""
    staging = Path(tempfile.mkdtemp(prefix=f".{copy.name}-", dir=copy.parent))
    try:
        for name in sizes:
            target = staging / "store" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                (url / name).get(target)
            except InputError as error:
                raise with_location(url / name, error) from error
        if not copy.exists():  # by another process, meanwhile
            (staging / "store").rename(copy)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
