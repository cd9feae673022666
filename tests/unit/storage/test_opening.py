from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from leakdet.config import LabelsConfig
from leakdet.core.errors import InputError
from leakdet.storage.opening import (
    Store,
    open_labelled,
    open_split,
    open_store,
    split_names,
)


def test_the_splits_of_a_store_are_listed_and_opened(write_store: Any, planted: Any) -> None:
    store = write_store(test=[planted("other", 2)], train=[planted("leak", 1)])
    assert split_names(store) == ["train", "test"]
    assert open_split(store, "test").recordings == 1
    assert open_labelled(store, "train").leak_labels == ["leak"]
    assert open_labelled(store, "train", LabelsConfig(leak="OTHER")).leak_labels == ["other"]


def test_what_is_no_store_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere: .*no such store"):
        open_split(tmp_path / "nowhere", "train")
    assert split_names(tmp_path) == []


def test_a_missing_split_is_told_with_those_there_are(write_store: Any, planted: Any) -> None:
    store = write_store(train=[planted("leak", 1)], test=[planted("leak", 2)])
    with pytest.raises(InputError, match=r"no val split; it has train, test\. Build the store"):
        open_split(store, "val")


@pytest.fixture
def store(example_files) -> Store:
    return open_store(str(example_files.store))


def test_the_splits_come_by_name(store: Store, example_files) -> None:
    assert list(store) == ["train", "val", "test"]
    assert "test" in store
    assert "prod" not in store
    assert repr(store) == f"Store('{example_files.store}', splits train, val, test)"
    assert repr(store["test"]) == "<test: 4 recordings, 16 windows>"
    with pytest.raises(KeyError, match="has no split 'prod'; it has train, val, test"):
        store["prod"]


def test_arrays_are_those_of_the_file(store: Store, example_files) -> None:
    test = store["test"]
    with h5py.File(example_files.store / "test.h5") as file:
        names = file["recording_id"].asstr()[...]
        label_names = ["leak", "other"]
        assert list(test) == test.names.tolist() == names.tolist()
        assert test.labels.tolist() == [label_names[row] for row in file["label_id"]]
        assert test.is_leak.tolist() == [row == 0 for row in file["label_id"]]
        assert test.groups["pipe"].tolist() == file["group/pipe"].asstr()[...].tolist()
        offsets = file["recording_offsets"][...]
        assert test.windows.tolist() == np.diff(offsets).tolist()
        for row, name in enumerate(names):
            expected = file["mel"][offsets[row] : offsets[row + 1]]
            np.testing.assert_array_equal(test.mel(row), expected)
            np.testing.assert_array_equal(test.mel(name), expected)
    np.testing.assert_array_equal(test.mel(-1), test.mel(len(test) - 1))
    assert test.signal is not None
    assert test.mel(0).shape[1:] == test.signal.mel_shape


def test_nothing_can_be_written_into_the_store(store: Store, example_files) -> None:
    test = store["test"]
    for array in (test.names, test.labels, test.is_leak, test.groups["pipe"], test.windows):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]
    before = test.mel(0).copy()
    test.mel(0)[:] = 0
    np.testing.assert_array_equal(open_store(example_files.store)["test"].mel(0), before)


def test_what_is_not_there_is_named(store: Store, tmp_path: Path) -> None:
    with pytest.raises(IndexError, match=r"test has 4 recordings; .* 4$"):
        store["test"].mel(4)
    with pytest.raises(IndexError):
        store["test"].mel(-5)
    with pytest.raises(KeyError, match="test has no recording"):
        store["test"].mel("none.wav")
    with pytest.raises(InputError, match=r"nowhere: .*no such store"):
        open_store(tmp_path / "nowhere")
    with pytest.raises(InputError, match="leakdet build"):
        open_store(tmp_path)


def test_an_open_store_is_also_the_path_of_its_folder(store: Store, example_files) -> None:
    assert Path(store) == example_files.store
