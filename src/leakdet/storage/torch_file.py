"""Files of `torch.save`: written in one piece, read without executing anything in them."""

import io
import zipfile
from pathlib import Path
from typing import Any

import torch

from leakdet.storage.readable import COPY_AGAIN, understood


def read_torch(path: Path, kind: str) -> Any:
    """Plain containers and tensors on the CPU. `kind` names the file in the error.

    The archive keeps a CRC-32 of each tensor and of all else in it, which torch does not compare.

    Raises:
        InputError: the file is cut off or damaged, or holds more than plain containers and tensors.
    """
    # torch raises many kinds for a cut-off file and for pickles that it refuses
    with understood(path, f"a whole {kind}", COPY_AGAIN):
        _check_archive(path)
        return torch.load(path, map_location="cpu", weights_only=True)


def _check_archive(path: Path) -> None:
    """Raise an error where a part of an archive is not what was written."""
    with path.open("rb") as file:
        if file.read(2) != b"PK":  # the format of torch before 1.6 has no checksums
            return
        with zipfile.ZipFile(file) as archive:
            wrong = archive.testzip()
    if wrong is not None:
        raise ValueError(f"damaged: {wrong} is not what was written, by its checksum")


def write_torch(content: Any, path: Path) -> None:
    """Write what `torch.save` makes of it; a full disk is an OSError, in torch a RuntimeError."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    path.write_bytes(buffer.getbuffer())
