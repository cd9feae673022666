"""Checkpoints that are whole or not there: written beside their place, flushed to the disk, then renamed."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO

from leakdet.errors import InputError
from leakdet.storage.atomic import whole_file
from leakdet.storage.torch_file import read_torch


class AtomicCheckpointIO(TorchCheckpointIO):
    """Lightning's own writes go through the system's temporary folder, which is atomic on one file system only."""

    def save_checkpoint(
        self,
        checkpoint: dict[str, Any],
        path: str | os.PathLike[str],
        storage_options: Any | None = None,
    ) -> None:
        write_whole(Path(path), lambda beside: torch.save(checkpoint, beside))

    def load_checkpoint(
        self,
        path: str | os.PathLike[str],
        map_location: Any | None = None,
        weights_only: bool | None = None,
    ) -> dict[str, Any]:
        return read_checkpoint(Path(path))


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file beside `path` and give it that name once its bytes are on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as beside:
        write(beside)
        _flush(beside)
    _flush(path.parent)  # the new name too


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """A checkpoint as plain containers and tensors on the CPU; nothing in it is executed.

    Raises:
        InputError: there is no such file, it is damaged, or it is no training checkpoint of leakdet.
    """
    if not path.is_file():
        raise InputError(f"{path}: there is no such checkpoint.")
    checkpoint = read_torch(path, "training checkpoint")
    if not isinstance(checkpoint, dict) or not checkpoint.keys() >= {"state_dict", "loops"}:
        raise InputError(f"{path}: not a training checkpoint of leakdet.")
    return checkpoint
