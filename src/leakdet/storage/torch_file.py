"""Files of `torch.save`: written in one piece, read without executing anything in them."""

import io
from pathlib import Path
from typing import Any

import torch

from leakdet.errors import InputError


def read_torch(path: Path, kind: str) -> Any:
    """Plain containers and tensors on the CPU. `kind` names the file in the error.

    Raises:
        InputError: the file is cut off, or holds more than plain containers and tensors.
    """
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    # torch raises many kinds for a cut-off file and for pickles that it refuses
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path}: not a whole {kind} ({reason}).") from error


def write_torch(content: Any, path: Path) -> None:
    """Write what `torch.save` makes of it; a full disk is an OSError, in torch a RuntimeError."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    path.write_bytes(buffer.getbuffer())
