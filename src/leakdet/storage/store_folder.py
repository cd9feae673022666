"""The refusal of a folder that is no store, told from its files' names alone: no HDF5 is loaded."""

from pathlib import Path

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
