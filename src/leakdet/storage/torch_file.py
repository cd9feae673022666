"""Files written by `torch.save`, read without executing anything in them."""

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
