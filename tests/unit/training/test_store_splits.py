"""The splits of a store, opened together; what is wrong with one is in test_datamodule.py."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from leakdet.errors import InputError
from leakdet.storage.opening import open_split
from leakdet.training.store_splits import open_splits, parts_of_store


@pytest.fixture
def store(stores: SimpleNamespace, tmp_path: Path) -> Path:
    for name in ("train", "val"):
        stores.write_split(tmp_path / f"{name}.h5", [3, 2], [0, 1])
    return tmp_path


def test_test_is_opened_where_there_is_one(stores: SimpleNamespace, store: Path) -> None:
    assert open_splits(store).test is None
    stores.write_split(store / "test.h5", [1, 1], [0, 1])
    splits = open_splits(store)
    assert [split.name for split in splits.all] == ["train", "val", "test"]
    assert (splits.surrogates, splits.of_whole_store) == (0, True)


def test_parts_are_taken_as_the_caller_divided_them(store: Path) -> None:
    """Of one split: no sound is kept apart, as their caller does that."""
    train = open_split(store, "train")
    splits = parts_of_store(store, train, train)
    assert not splits.of_whole_store
    assert [split.files for split in splits.all] == [train.files, train.files]
    assert splits.train.leak_labels == ["LEAK"]


@pytest.mark.parametrize("name", ["train", "val"])
def test_a_missing_split_is_named(store: Path, name: str) -> None:
    (store / f"{name}.h5").unlink()
    with pytest.raises(InputError, match=f"there is no {name} split"):
        open_splits(store)
