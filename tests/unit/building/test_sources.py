"""Names of recordings, and groups in them."""

import os
from pathlib import Path

from leakdet.building.sources import groups_of_name, printable


def test_groups_in_file_names():
    assert groups_of_name(Path("a/s7~r1~2024-05-01~12.wav")) == {
        "sensor": "s7",
        "recording": "r1",
        "timestamp": "2024-05-01",
        "gain_db": "12",
    }
    assert groups_of_name(Path("a~b.wav")) == {}


def test_names_are_stored_in_one_form():
    assert printable("Stra\u0308\u00dfe") == printable("Str\u00e4\u00dfe") == "Str\u00e4\u00dfe"
    assert printable(os.fsdecode(b"caf\xe9")) == "caf\\xe9"
