from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from leakdet.errors import InputError
from leakdet.storage.layout import check_layout, check_values, read_attributes


@pytest.fixture
def path(write_store: Any, planted: Any) -> Path:
    return write_store(train=[planted("leak", 1), planted("other", 2)]) / "train.h5"


def test_a_whole_file_passes_and_gives_its_attributes(path: Path) -> None:
    with h5py.File(path, "r") as file:
        check_layout(path, file)
        signal, names, leak = read_attributes(path, file)
        offsets = file["recording_offsets"][...].astype(np.int64)
        check_values(path, file, offsets, np.array([0, 1]), names, signal)
    assert (names, leak, signal.mel_shape) == (["leak", "other"], ["leak"], (5, 12, 1))


@pytest.mark.parametrize("name", ["mel", "label_id", "recording_id"])
def test_a_missing_data_set_is_named(path: Path, name: str) -> None:
    with h5py.File(path, "r+") as file:
        del file[name]
        with pytest.raises(InputError, match=rf"train\.h5: lacks {name}; it has .*Build the store"):
            check_layout(path, file)


@pytest.mark.parametrize(
    ("offsets", "label_id", "message"),
    [
        ([0, 4, 4], [0, 1], r"recording 0001\.wav they go from 4 to 4"),
        ([0, 4, 7], [0, 1], "all recordings together they go from 0 to 7"),
        ([0, 4, 8], [0, 2], r"label_id 2 of recording 0001\.wav .*0 to 1"),
    ],
)
def test_values_that_disagree_are_named_with_the_recording(
    path: Path, offsets: list[int], label_id: list[int], message: str
) -> None:
    with h5py.File(path, "r") as file:
        signal, names, _ = read_attributes(path, file)
        with pytest.raises(InputError, match=message):
            check_values(path, file, np.array(offsets), np.array(label_id), names, signal)
