"""Names of recordings, and groups in them."""

import os
from pathlib import Path

import pytest

from leakdet.building.sources import SPLIT_NAMES, groups_of_name, printable, split_folders


def test_groups_in_file_names():
    assert groups_of_name(Path("a/s7~r1~2024-05-01~12.wav")) == {
        "sensor": "s7",
        "recording": "r1",
        "timestamp": "2024-05-01",
        "gain_db": "12",
    }
    assert groups_of_name(Path("a~b.wav")) == {}


@pytest.mark.parametrize(
    ("names", "splits", "beside"),
    [
        (["test", "old", "Training", "VALID", "docs"], "Training VALID test", ["docs", "old"]),
        (["val", "train"], "train val", []),  # nothing that could be a label
        (["train", "val", "leak"], "", []),  # labels, two of them named as splits are
        (["test"], "test", []),
        ([], "", []),
    ],
)
def test_folders_are_splits_where_nothing_else_makes_sense(
    names: list[str], splits: str, beside: list[str]
):
    known, others = split_folders(names)
    assert list(known) == splits.split()
    assert all(split == SPLIT_NAMES[name.casefold()] for name, split in known.items())
    assert others == beside


def test_names_are_stored_in_one_form():
    assert printable("Stra\u0308\u00dfe") == printable("Str\u00e4\u00dfe") == "Str\u00e4\u00dfe"
    assert printable(os.fsdecode(b"caf\xe9")) == "caf\\xe9"
