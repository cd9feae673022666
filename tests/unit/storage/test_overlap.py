import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest

from leakdet.core.errors import InputError
from leakdet.storage.hdf5 import seal_h5
from leakdet.storage.integrity import check_contents
from leakdet.storage.opening import open_split
from leakdet.storage.overlap import (
    check_no_copies,
    check_no_overlap,
    column_to_keep_apart,
    group_values,
    shared_sentences,
    shared_with,
    values_sentence,
)
from leakdet.storage.views import pooled


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            ("ABC", "ABC", "ABC"),
            r"^day: all 3 values .* train, val and test; .*new day.*split\.group_by=\[day\]$",
        ),
        (
            ("AB", "AB", "B"),
            r"^day: both values .* train, val and test; .*new day.*crossval\.group_by=day ",
        ),
        (
            ("A", "A", "A"),
            r"^day: its one value .* train, val and test; .*new day\.$",
        ),
        (
            ("ABC", "D", "CE"),
            r"^day: 1 of 5 values .* train and test; .*partly .*split\.group_by=\[day\]$",
        ),
        (("AB", "C", ""), "^day: 2 in train, 1 in val; none in train and "),
        (("", "", ""), "^day: blank everywhere; none in train and "),
    ],
)
def test_what_is_shared_is_told_with_what_to_do(
    values: tuple[str, str, str], sentence: str
) -> None:
    of_split = dict(zip(("train", "val", "test"), map(set, values), strict=True))
    assert re.search(sentence, values_sentence("day", of_split))
    assert bool(shared_with(of_split)) == ("none in train" not in sentence)


def test_of_several_columns_the_one_with_most_values_is_to_be_kept_apart() -> None:
    columns = {"day": ("AB", "AB", "B"), "site": ("ABC", "ABC", "C"), "sensor": ("A", "B", "C")}
    names = ("train", "val", "test")
    values = {name: dict(zip(names, map(set, of), strict=True)) for name, of in columns.items()}
    assert column_to_keep_apart(values) == "site"
    assert "group_by" not in values_sentence("day", values["day"], advise=False)
    assert column_to_keep_apart({"sensor": values["sensor"]}) == ""


def test_a_training_is_told_of_shared_columns_only(write_store: Any, planted: Any) -> None:
    def recordings(first: int, sites: str, days: str) -> list[Any]:
        return [
            planted(
                "leak" if number % 2 else "other",
                seed=first + number,
                groups={"site": sites[number % len(sites)], "day": days[number % len(days)]},
            )
            for number in range(4)
        ]

    store = write_store(train=recordings(0, "ab", "12"), val=recordings(10, "cd", "12"))
    splits = [open_split(store, name) for name in ("train", "val")]
    (sentence,) = shared_sentences(splits)
    assert sentence.startswith("day: both values are in train and val; ")
    values = group_values(splits)
    assert list(values) == ["day", "site"]
    assert values["site"] == {"train": {"a", "b"}, "val": {"c", "d"}, "test": set()}


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
