"""Reads and writes leakdet's JSON files."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leakdet.errors import InputError
from leakdet.storage.atomic import whole_file
from leakdet.storage.readable import understood
from leakdet.storage.seal import KEY, UNSEALED, is_sealed, sealed


def read_json(path: Path, what: str, remedy: str = "") -> dict[str, Any]:
    """The object in a JSON file; `what` names its kind.

    Raises:
        InputError: missing, unreadable or damaged; ends with the `remedy`.
    """
    with understood(path, what, remedy):
        written = path.read_bytes()
        is_sealed(path, written, remedy)
        content = json.loads(written)
    if not isinstance(content, dict):
        raise InputError(f"{path}: not {what}. {remedy}".rstrip())
    content.pop(KEY, None)
    return content


def write_json(path: Path, content: Mapping[str, Any], seal: bool = False) -> None:
    """Write strict JSON atomically: what is undefined is null, never NaN.

    `seal`: with a hash, for what nobody edits, so that `read_json` notices a changed digit.
    """
    more = {KEY: UNSEALED} if seal else {}
    text = (json.dumps({**more, **content}, indent=2, allow_nan=False) + "\n").encode()
    with whole_file(path) as partial:
        partial.write_bytes(sealed(text) if seal else text)
