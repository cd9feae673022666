"""Stores behind URLs, copied to this machine once, since training reads them from a disk."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from leakdet._messages import LOG
from leakdet._remote import RemoteFile, named, place
from leakdet.config import DataConfig
from leakdet.errors import InputError
from leakdet.storage.cache_folder import default_cache, require_writable
from leakdet.storage.disk_space import megabytes, require_space

BUILT = "build.json"  # a store has it when it is whole, and another one after each change


def with_local_stores(data: DataConfig) -> DataConfig:
    """The same settings with local copies of the stores that are named by a URL.

    Raises:
        InputError: see `local_store`.
    """
    return replace(
        data,
        store=None if data.store is None else str(local_store(data.store, data.cache)),
        stores=[str(local_store(store, data.cache)) for store in data.stores],
    )


def local_store(store: str, cache: str | None = None) -> Path | str:
    """The copy of a store behind a URL in `cache` (None: the user's); any other one as it is.

    A copy is made once, and again where the store has changed.

    Raises:
        InputError: there is no whole store, it cannot be had, or there is no room for it.
    """
    url = place(store)
    if not isinstance(url, RemoteFile):
        return store
    try:
        sizes = url.sizes()
        if not any(name.lower().endswith(".h5") for name in sizes):
            raise InputError("holds no HDF5 files, so it is no store")
        built = (url / BUILT).read_bytes() if BUILT in sizes else b""
    except InputError as error:
        raise named(url, error) from error
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
                raise named(url / name, error) from error
        if not copy.exists():  # by another process, meanwhile
            (staging / "store").rename(copy)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
