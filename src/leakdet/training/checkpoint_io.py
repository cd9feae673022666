"""Reading and writing checkpoints: atomically, and without executing what is in them."""

import os
from pathlib import Path
from typing import Any

from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO

from leakdet.errors import InputError
from leakdet.storage.atomic import whole_file
from leakdet.storage.readable import require_readable
from leakdet.storage.torch_file import read_torch, write_torch


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes to a temporary sibling, then renames it.

    Lightning's own writes pass through the system's temporary folder, which may lie on another file
    system: then they are not atomic.
    """

    def save_checkpoint(
        self,
        checkpoint: dict[str, Any],
        path: str | os.PathLike[str],
        storage_options: Any | None = None,
    ) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with whole_file(Path(path)) as partial:
            write_torch(checkpoint, partial)

    def load_checkpoint(
        self,
        path: str | os.PathLike[str],
        map_location: Any | None = None,
        weights_only: bool | None = None,
    ) -> dict[str, Any]:
        return read_checkpoint(Path(path))


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint as plain containers and CPU tensors; nothing in it is executed.

    Raises:
        InputError: the file is missing, damaged, or no training checkpoint of leakdet.
    """
    require_readable(path, "checkpoint")
    checkpoint = read_torch(path, "training checkpoint")
    if not isinstance(checkpoint, dict) or not checkpoint.keys() >= {"state_dict", "loops"}:
        raise InputError(f"{path}: not a training checkpoint of leakdet.")
    return checkpoint
