"""A store's folder by what is in it beside the mel; no HDF5 is loaded."""

import json
from pathlib import Path
from typing import Any

from leakdet.errors import InputError


def require_store(store: Path) -> None:
    """Raise `InputError` where `store` is no folder with HDF5 files."""
    if not store.exists():
        raise InputError(f"{store}: there is no such store.")
    if not store.is_dir():
        raise InputError(f"{store}: a store is a folder, and this is a file.")
    if not any(store.glob("*.[hH]5")):
        raise InputError(
            f"{store}: holds no HDF5 files, so it is no store. If it holds recordings, make a "
            f"store of them: leakdet build source={store} out=store"
        )


def build_facts(store: Path) -> dict[str, Any]:
    """The content of build.json, how the store was made; empty where it is missing or damaged."""
    try:
        content = json.loads((store / "build.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
