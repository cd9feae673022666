"""The description of a model file, without torch."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from leakdet.errors import InputError
from leakdet.storage.model_card import CARD_KEY, FORMAT_VERSION, read_card


def written(path: Path, card: object) -> Path:
    save_file({"a": np.zeros(2)}, path, metadata={CARD_KEY: json.dumps(card)})
    return path


def test_it_is_what_the_model_file_holds(example_files) -> None:
    card = read_card(example_files.model)
    assert card["network"]["name"] == "linear"
    assert card["format_version"] == FORMAT_VERSION


def test_it_is_read_without_torch(example_files) -> None:
    code = (
        "import sys; from pathlib import Path; from leakdet.storage.model_card import read_card; "
        f"read_card(Path({str(example_files.model)!r})); print('torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


@pytest.mark.parametrize(
    ("card", "reason"),
    [
        ([1], "is list, not an object"),
        ({"format_version": 99}, "its format version is 99"),
        ({"format_version": FORMAT_VERSION}, "lacks \\['signal'"),
    ],
)
def test_another_description_is_refused(card: object, reason: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=reason):
        read_card(written(tmp_path / "m.safetensors", card))


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    with pytest.raises(InputError, match="no such model file"):
        read_card(path)
    path.write_bytes(b"no safetensors")
    with pytest.raises(InputError, match="not a whole"):
        read_card(path)
    save_file({"a": np.zeros(2)}, path)
    with pytest.raises(InputError, match="not a model of leakdet"):
        read_card(path)
