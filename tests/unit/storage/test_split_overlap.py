import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from leakdet.errors import InputError
from leakdet.storage.ailh_store import FILES
from leakdet.storage.integrity import check_contents
from leakdet.storage.opening import open_split
from leakdet.storage.split_overlap import check_no_copies, check_no_overlap
from leakdet.storage.store import StoreSplit
from leakdet.storage.views import pooled


def ailh_splits(folder: Path, change: dict[str, dict[int, Any]]) -> list[StoreSplit]:
    """Twelve recordings of four windows a split, with these rows exchanged."""
    for number, (name, file_name) in enumerate(FILES.items()):
        mel = np.random.default_rng(number).normal(-60, 9, (12, 4, 2, 8, 1)).astype(np.float16)
        for row, values in change.get(name, {}).items():
            mel[row] = values
        with h5py.File(folder / file_name, "w") as file:
            file["segments_mel"], file["labels"] = mel, (np.arange(12) % 2).astype(np.int16)
            file.attrs["labels_json"] = json.dumps(["LEAK", "NOLEAK"])
    return [open_split(folder, name) for name in FILES]


def test_a_mel_in_two_splits_without_hashes_is_found(tmp_path: Path) -> None:
    twice = np.random.default_rng(9).normal(-60, 9, (4, 2, 8, 1))
    train, val, test = ailh_splits(tmp_path, {"train": {3: twice}, "test": {5: twice}})
    read = [(split, check_contents(split)) for split in (train, val, test)]
    check_no_copies(read[:2])
    message = r"TRAINING_DATASET\.H5 and in TESTING_DATASET\.H5, 1 times \(TRAINING_DATASET#3 and TESTING_DATASET#5\).*keeps"
    with pytest.raises(InputError, match=message):
        check_no_copies(read)


def test_checksums_that_agree_by_chance_are_no_copies(tmp_path: Path) -> None:
    train, val, _ = ailh_splits(tmp_path, {})
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
    splits = [open_split(store, name) for name in ("train", "val")]
    if shared is None:
        check_no_overlap(splits)
        return
    with pytest.raises(InputError, match=r"the group \(site\) a lies in train\.h5 and in val\.h5"):
        check_no_overlap(splits)


def test_splits_of_unequal_size_without_copies_pass(tmp_path: Path) -> None:
    train, val, _ = ailh_splits(tmp_path, {})
    part = pooled([val]).take(np.array([0, 1]), "part")
    check_no_copies([(train, check_contents(train)), (part, check_contents(part))])
