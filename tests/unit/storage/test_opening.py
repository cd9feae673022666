from pathlib import Path
from typing import Any

import pytest

from leakdet.config import LabelsConfig
from leakdet.errors import InputError
from leakdet.storage.opening import open_labelled, open_split, split_names, with_surrogates


def test_the_splits_of_a_store_are_listed_and_opened(write_store: Any, planted: Any) -> None:
    store = write_store(test=[planted("other", 2)], train=[planted("leak", 1)])
    assert split_names(store) == ["train", "test"]
    assert open_split(store, "test").recordings == 1
    assert open_labelled(store, "train").leak_labels == ["leak"]
    assert open_labelled(store, "train", LabelsConfig(leak="OTHER")).leak_labels == ["other"]


def test_what_is_no_store_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere: there is no such store"):
        open_split(tmp_path / "nowhere", "train")
    assert split_names(tmp_path) == []


def test_a_missing_split_is_told_with_those_there_are(write_store: Any, planted: Any) -> None:
    store = write_store(train=[planted("leak", 1)], test=[planted("leak", 2)])
    with pytest.raises(InputError, match=r"no val split; it has train, test\. Build the store"):
        open_split(store, "val")


def test_surrogates_stand_after_the_recordings_of_train(write_store: Any, planted: Any) -> None:
    store = write_store(train=[planted("leak", 1)], surrogates=[planted("leak", 2)])
    train = open_split(store, "train")
    both, surrogates = with_surrogates(train, store)
    assert (train.recordings, both.recordings, surrogates) == (1, 2, 1)
    (store / "surrogates.h5").unlink()
    alone, surrogates = with_surrogates(train, store)
    assert (alone.recordings, surrogates) == (1, 0)
