"""Reads JSON files that leakdet has written."""

import json
from pathlib import Path
from typing import Any

from leakdet.errors import InputError


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
