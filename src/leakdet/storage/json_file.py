"""Reads and writes leakdet's JSON files."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leakdet.errors import InputError
from leakdet.storage.atomic import whole_file


def read_json(path: Path, what: str, remedy: str = "") -> dict[str, Any]:
    """The object in a JSON file; `what` names its kind.

    Raises:
        InputError: missing, unreadable or damaged; ends with the `remedy`.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: not {what} ({reason}). {remedy}".rstrip()) from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: not {what}. {remedy}".rstrip())
    return content


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write strict JSON atomically: what is undefined is null, never NaN."""
    text = json.dumps(content, indent=2, allow_nan=False) + "\n"
    with whole_file(path) as partial:
        partial.write_text(text, encoding="utf-8")
