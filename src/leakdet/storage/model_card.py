"""The description in a model file, as JSON: read and checked without torch."""

import hashlib
import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import safe_open

from leakdet.errors import InputError
from leakdet.storage.model_place import model_kind
from leakdet.storage.readable import COPY_AGAIN, require_readable, understood
from leakdet.storage.seal import is_sealed

FORMAT_VERSION = 1
CARD_KEY = "leakdet"  # of the safetensors metadata, and of the checkpoint
_NEEDED = ("signal", "labels", "network", "mel_shape", "unit", "blend", "decision_rule")


def read_card(path: Path) -> dict[str, Any]:
    """The checked description of a `.safetensors` file.

    Raises:
        InputError: missing, cut off, no model of leakdet, or of a newer format.
    """
    with open_safetensors(path, "numpy") as file:
        card = card_in(path, file.metadata())
    check_card(path, card)
    return card


@contextmanager
def open_safetensors(path: Path, framework: str) -> Iterator[Any]:
    """Open a model file and compare its seal. What is raised on damage becomes a sentence.

    Raises:
        InputError: missing, cut off, or not what was written.
    """
    require_readable(path, "model file")
    whole = understood(path, "a whole .safetensors file", COPY_AGAIN)
    with whole, safe_open(path, framework=framework) as file:
        is_sealed(path, path.read_bytes(), COPY_AGAIN)
        yield file


def has_checksums(path: Path) -> bool:
    """True if what a model file or a checkpoint holds can be compared with what was written."""
    if model_kind(path) in (".safetensors", ".onnx"):
        return is_sealed(path, path.read_bytes(), COPY_AGAIN)
    return zipfile.is_zipfile(path)  # of which `read_torch` compares them


def card_in(path: Path, metadata: Mapping[str, str] | None) -> dict[str, Any]:
    """The description within a file's metadata. Raises `InputError` where it has none."""
    if not metadata or CARD_KEY not in metadata:
        raise InputError(f"{path}: a .safetensors file, but not a model of leakdet.")
    return parse_card(path, metadata[CARD_KEY])


def parse_card(path: Path, text: str) -> dict[str, Any]:
    """The description of a model from its text. Raises `InputError` where it is no JSON object."""
    try:
        card = json.loads(text)
    except ValueError as error:
        raise InputError(f"{path}: its description is not JSON ({error}).") from error
    if not isinstance(card, dict):
        raise InputError(f"{path}: its description is {type(card).__name__}, not an object.")
    return card


def check_card(path: Path, card: Mapping[str, Any]) -> None:
    """Raise `InputError` for a description of another format, or one that lacks what it needs."""
    version = card.get("format_version")
    if version != FORMAT_VERSION:
        raise InputError(
            f"{path}: its format version is {version}, this leakdet reads {FORMAT_VERSION}."
        )
    lacking = [name for name in _NEEDED if name not in card]
    if lacking:
        raise InputError(f"{path}: its description lacks {lacking}.")


def file_hash(path: Path) -> str:
    """The first 12 digits of a file's SHA-256, by which rows and cards name a model."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]
