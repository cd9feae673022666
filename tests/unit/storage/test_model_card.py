"""The description of a model file, without torch."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from leakdet.errors import InputError
from leakdet.storage.model_card import CARD_KEY, FORMAT_VERSION, has_checksums, read_card


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


def test_a_changed_byte_is_noticed_wherever_it_is(example_files, tmp_path: Path) -> None:
    """In the header, the description, or a weight; none of them changes without a word."""
    whole, path = example_files.model.read_bytes(), tmp_path / "m.safetensors"
    seal = whole.index(b'"leakdet_blake2b"')
    for at in range(0, len(whole), max(1, len(whole) // 300)):
        if seal <= at < seal + 53:
            continue
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(InputError, match=r"m\.safetensors: .*Copy it again"):
            read_card(path)


def test_files_without_a_checksum_are_read_and_known_as_such(example_files, tmp_path: Path) -> None:
    card = read_card(example_files.model)
    older = written(tmp_path / "m.safetensors", card)
    assert read_card(older) == card
    assert not has_checksums(older)
    assert has_checksums(example_files.model)
