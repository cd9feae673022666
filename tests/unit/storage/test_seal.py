"""A broken seal is a sentence before anything in the file is believed."""

import json
import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from leakdet.errors import InputError
from leakdet.storage.hdf5 import seal_h5
from leakdet.storage.opening import open_split
from leakdet.storage.seal import KEY, UNSEALED, is_sealed, sealed, store_is_sealed

REMEDY = "Build it."


@pytest.fixture
def path(write_store: Any, planted: Any) -> Path:
    return write_store(train=[planted("leak", 1), planted("other", 2)]) / "train.h5"


def test_every_byte_of_some_content_is_covered():
    content = sealed(json.dumps({"a": 1, KEY: UNSEALED, "b": [2, 3]}).encode())
    assert is_sealed(Path("m"), content, REMEDY)
    digits = content.index(KEY.encode()) + len(KEY) + 4
    for at in range(len(content)):
        changed = bytearray(content)
        changed[at] ^= 1
        if not digits - len(KEY) - 5 <= at < digits + 33:  # else it may be no seal any more
            with pytest.raises(InputError, match=r"m: damaged: .*not those that .*Build it\."):
                is_sealed(Path("m"), bytes(changed), REMEDY)
    assert not is_sealed(Path("m"), b"{}", REMEDY)
    with pytest.raises(ValueError, match="has no leakdet_blake2b"):
        sealed(b"{}")


def test_a_store_is_sealed_but_for_its_mel(path: Path):
    assert store_is_sealed(path, REMEDY)
    with h5py.File(path) as file:
        mel = range(file["mel"].id.get_offset(), file["mel"].id.get_offset() + file["mel"].size * 2)
    whole, flags = path.read_bytes(), range(4096 + 20, 4096 + 24)
    places = {*range(4096, len(whole), 197), mel.start - 1, mel.stop, len(whole) - 1, *mel[:2]}
    for number, at in enumerate(places):
        changed = bytearray(whole)
        changed[at] ^= 1
        path.write_bytes(changed)
        os.utime(path, ns=(number, number))  # a clock may stand still between two writes
        if at in mel or at in flags:
            assert store_is_sealed(path, REMEDY)
            continue
        with pytest.raises(InputError, match=r"train\.h5: damaged: its bytes are not those"):
            store_is_sealed(path, REMEDY)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda whole: whole[:-1], r"train\.h5: it is cut off \(\d+ of \d+ bytes\)\. Build it"),
        (lambda whole: whole + b"x", r"train\.h5: damaged: it has \d+ bytes, not \d+\. Build it"),
        (lambda whole: whole.replace(b"left_out", b"left-out"), "damaged in its first bytes"),
        (lambda whole: whole.replace(b"[[4116", b"[[9116"), "damaged in its first bytes"),
        (lambda whole: whole.replace(b'"bytes": ', b'"bytes": 9'), "it is cut off"),
    ],
)
def test_what_is_wrong_is_said(path: Path, change: Any, message: str):
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(InputError, match=message):
        store_is_sealed(path, REMEDY)


def test_stores_of_older_versions_have_no_seal(path: Path, tmp_path: Path):
    with h5py.File(path) as file, h5py.File(tmp_path / "train.h5", "w") as older:
        older.attrs.update(file.attrs)
        for name in file:
            file.copy(name, older)
    assert not store_is_sealed(tmp_path / "train.h5", REMEDY)
    both = [open_split(folder, "train") for folder in (path.parent, tmp_path)]
    assert np.array_equal(*(split.read(0, 8) for split in both))
    assert both[0].recording_ids.tolist() == both[1].recording_ids.tolist()


def test_who_changes_a_store_seals_it_anew(path: Path):
    with h5py.File(path, "r+") as file:
        file["label_id"][0] = 1
    with pytest.raises(InputError, match="not those that were written"):
        open_split(path.parent, "train")
    seal_h5(path)
    assert open_split(path.parent, "train").label_id.tolist() == [1, 1]


def test_the_bytes_are_hashed_once(path: Path, monkeypatch: pytest.MonkeyPatch):
    split = open_split(path.parent, "train")
    monkeypatch.setattr("leakdet.storage.seal._pieces", None)
    assert split.recording_ids.tolist() == ["0000.wav", "0001.wav"]
