"""Group columns that splits share are told in plain words, with what to do."""

from typing import Any

import pytest

from leakdet.storage.opening import open_split
from leakdet.storage.shared_groups import (
    group_values,
    shared_sentences,
    shared_with,
    values_sentence,
)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            ("ABC", "ABC", "ABC"),
            "day: all 3 values are in train, val and test; scores say nothing about a new day. "
            "Keep them apart: build with split.group_by=[day]",
        ),
        (
            ("AB", "AB", "B"),
            "day: both values are in train, val and test; scores say nothing about a new day. "
            "Too few for a split each; crossval.group_by=day holds out each in turn",
        ),
        (
            ("A", "A", "A"),
            "day: its one value is in train, val and test; scores say nothing about a new day.",
        ),
        (
            ("ABC", "D", "CE"),
            "day: 1 of 5 values is in train and test; scores are partly of a day known from "
            "training. Keep them apart: build with split.group_by=[day]",
        ),
        (("AB", "C", ""), "day: 2 in train, 1 in val; none in train and in another split"),
        (("", "", ""), "day: blank everywhere; none in train and in another split"),
    ],
)
def test_what_is_shared_is_told_with_what_to_do(
    values: tuple[str, str, str], sentence: str
) -> None:
    of_split = dict(zip(("train", "val", "test"), map(set, values), strict=True))
    assert values_sentence("day", of_split) == sentence
    assert bool(shared_with(of_split)) == ("none in train" not in sentence)


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
    assert sentence.startswith("day: both values are in train and val; scores say nothing")
    values = group_values(splits)
    assert list(values) == ["day", "site"]
    assert values["site"] == {"train": {"a", "b"}, "val": {"c", "d"}, "test": set()}
