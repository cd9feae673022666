import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest

from leakdet.errors import InputError
from leakdet.storage.hdf5 import seal_h5
from leakdet.storage.integrity import check_contents
from leakdet.storage.opening import open_split
from leakdet.storage.split_overlap import check_no_copies, check_no_overlap
from leakdet.storage.views import pooled


def test_a_mel_in_two_splits_without_hashes_is_found(
    stores: SimpleNamespace, tmp_path: Path
) -> None:
    twice = np.random.default_rng(9).normal(-60, 9, (4, 2, 8, 1))
    train, val, test = stores.ailh_splits(tmp_path, {"train": {3: twice}, "test": {5: twice}})
    read = [(split, check_contents(split)) for split in (train, val, test)]
    check_no_copies(read[:2])
    message = r"TRAINING_DATASET\.H5 and in TESTING_DATASET\.H5, 1 times \(TRAINING_DATASET#3 and TESTING_DATASET#5\).*keeps"
    with pytest.raises(InputError, match=message):
        check_no_copies(read)


def test_checksums_that_agree_by_chance_are_no_copies(
    stores: SimpleNamespace, tmp_path: Path
) -> None:
    train, val, _ = stores.ailh_splits(tmp_path, {})
    same = np.arange(12, dtype=np.uint32)
    check_no_copies([(train, same), (val, same)])


@pytest.mark.parametrize("shared", [None, "group"])
def test_a_group_in_two_splits_is_named_where_the_build_kept_it_together(
    write_store: Any, planted: Any, shared: str | None
) -> None:
    store = write_store(
        train=[planted("leak", 1, groups={"site": "a"})],
        val=[planted("other", 2, groups={"site": "a" if shared else "b"})],
    )
    for path in store.glob("*.h5"):
        with h5py.File(path, "r+") as file:
            file.attrs["group_by"] = json.dumps(["site"])
        seal_h5(path)
    splits = [open_split(store, name) for name in ("train", "val")]
    if shared is None:
        check_no_overlap(splits)
        return
    with pytest.raises(InputError, match=r"the group \(site\) a lies in train\.h5 and in val\.h5"):
        check_no_overlap(splits)


def test_splits_of_unequal_size_without_copies_pass(
    stores: SimpleNamespace, tmp_path: Path
) -> None:
    train, val, _ = stores.ailh_splits(tmp_path, {})
    part = pooled([val]).take(np.array([0, 1]), "part")
    check_no_copies([(train, check_contents(train)), (part, check_contents(part))])
