"""The card of a store."""

import json
from pathlib import Path

import pytest

from leakdet.cli.store_lines import split_lines, store_lines
from leakdet.errors import InputError


def test_a_store_tells_its_recordings_and_its_groups(demo_store: Path) -> None:
    text = " ".join(part.strip() for part in store_lines(demo_store))
    for told in (
        "by leakdet",
        "from     demo",
        "splits   by site, whole groups",
        "leak     LEAK",
        "train    36 recordings (18 LEAK, 18 NOLEAK), 90 windows, 0.02 h",
        "group    site: 6 in train, 2 in val, 2 in test; none in train and in another split",
        "signal   16 kHz",
        "intact   yes, by its checksum; its mel is compared when it is read",
        "note     Verified",
    ):
        assert told in text


def test_a_store_without_its_notes_says_what_is_unknown(write_store, planted) -> None:
    store = write_store(train=[planted("leak", 0), planted("other", 1)])
    text = "\n".join(store_lines(store))
    assert "by an unknown version" in text
    assert "unknown: there is no build.json" in text
    assert "group    none" in text


def test_the_first_recordings_left_out_are_named(write_store, planted) -> None:
    store = write_store(train=[planted("leak", 0)])
    left = [{"path": f"{n}.wav", "reason": "is silent"} for n in range(5)]
    (store / "build.json").write_text(json.dumps({"left_out": left, "surrogates": 7}))
    text = "\n".join(store_lines(store))
    assert "left out 5 recordings" in text
    assert "2.wav: is silent" in text
    assert "3.wav" not in text
    assert "7 surrogates" in text


def test_one_file_of_a_store(write_store, planted) -> None:
    store = write_store(val=[planted("leak", 0), planted("other", 1)])
    text = "\n".join(split_lines(store / "val.h5"))
    assert "val      2 recordings (1 leak, 1 other), 8 windows" in text
    assert "intact   yes" in text
    (store / "val.h5").write_bytes(b"no HDF5")
    with pytest.raises(InputError, match=r"val\.h5"):
        list(split_lines(store / "val.h5"))
    with pytest.raises(InputError, match=r"val\.h5"):
        list(store_lines(store))


def test_a_folder_with_other_hdf5_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "other.h5").touch()
    with pytest.raises(InputError, match="none of them is a split"):
        list(store_lines(tmp_path))
