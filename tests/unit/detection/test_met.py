"""A model knows which recordings and groups it has met, in few bytes, and says so."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakdet.detection.met import MAX_GROUPS, MetRecordings, group_sentences

CONTENTS = st.lists(st.binary(min_size=1, max_size=4), unique=True, max_size=20)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@given(CONTENTS, CONTENTS, CONTENTS)
def test_a_content_is_met_in_the_role_in_which_it_was_given(
    train: list[bytes], val: list[bytes], asked: list[bytes]
) -> None:
    contents = {"train": map(digest, train), "val": map(digest, val)}
    met = MetRecordings.of(contents, {})
    expected = ["train" if c in train else "val" if c in val else "" for c in asked]
    assert met.roles_of(map(digest, asked)) == expected
    again = MetRecordings.from_file(met.tensors(), met.groups)
    assert again is not None
    assert again.roles_of(map(digest, asked)) == expected


def test_groups_are_counted_by_value_and_by_recording() -> None:
    groups = {
        "train": {"pipe": np.array(["1", "1", ""]), "site": np.array(["a", "b", "c"])},
        "val": {"pipe": np.array(["2"])},
    }
    met = MetRecordings.of({}, groups)
    counts = met.groups_met({"pipe": np.array(["2", "3", "3", ""]), "day": np.array(["x"] * 4)})
    assert counts == {"pipe": {"values": 2, "met": 1, "recordings": 1}}
    assert group_sentences(counts) == ["pipe: 1 of 2 values was in training (1 recording)."]
    counts = met.groups_met({"site": np.array(["a", "b"]), "pipe": np.array(["9", "9"])})
    site, pipe = group_sentences(counts)
    assert site.startswith("site: both values ")
    assert pipe.startswith("pipe: no value ")


def test_a_column_of_very_many_values_is_left_out() -> None:
    values = np.arange(MAX_GROUPS + 1).astype(str)
    met = MetRecordings.of({}, {"train": {"id": values, "few": values[: MAX_GROUPS // 2]}})
    assert list(met.groups) == ["few"]


def test_tensors_that_do_not_fit_are_refused() -> None:
    met = MetRecordings.of({"train": [digest(b"a"), digest(b"b")]}, {})
    tensors = met.tensors()
    assert MetRecordings.from_file({}, {}) is None
    for name in tensors:
        with pytest.raises(ValueError, match="do not fit together"):
            MetRecordings.from_file({**tensors, name: tensors[name][:1]}, {})
        with pytest.raises(ValueError, match="do not fit together"):
            MetRecordings.from_file({**tensors, name: tensors[name].float()}, {})


def test_a_hundred_thousand_recordings_take_16_bytes_each() -> None:
    contents = [digest(str(number).encode()) for number in range(100_000)]
    met = MetRecordings.of({"train": contents}, {})
    assert sum(t.numel() for t in met.tensors().values()) == 17 * 100_000
    assert met.roles_of(contents[::5000]) == ["train"] * 20


@given(CONTENTS, CONTENTS, CONTENTS, CONTENTS)
def test_two_models_together_have_met_what_either_has(
    train: list[bytes], val: list[bytes], other_train: list[bytes], other_val: list[bytes]
) -> None:
    mine, theirs = (
        MetRecordings.of({"train": map(digest, a), "val": map(digest, b)}, {})
        for a, b in ((train, val), (other_train, other_val))
    )
    both = mine.joined(theirs)
    everything = {*train, *val, *other_train, *other_val}
    trained = {*train, *other_train}
    asked = sorted(everything)
    assert both.roles_of(map(digest, asked)) == ["train" if c in trained else "val" for c in asked]
    assert len(both.hashes) == len(everything)


def test_of_a_file_that_was_met_in_part_all_is_met() -> None:
    a, b, c = (digest(text) for text in (b"a", b"b", b"c"))
    files = {"source_file": np.array(["/x/1.wav", ""])}
    mine = MetRecordings.of({"train": [a]}, {"train": files})
    both = mine.joined(MetRecordings.of({"val": [b]}, {"val": {"pipe": np.array(["1"])}}))
    for met in (mine, both):
        assert met.roles_of([a, c, c, c], ["/y", "/x/1.wav", "", "/x/2.wav"]) == [
            "train",
            "train",
            "",
            "",
        ]
    assert both.roles_of([b, c]) == ["val", ""]


def test_group_columns_that_both_know_are_joined() -> None:
    mine, theirs = (
        MetRecordings.of({}, {"train": {"pipe": np.array([pipe]), column: np.array(["x"])}})
        for pipe, column in (("1", "day"), ("2", "site"))
    )
    assert mine.joined(theirs).groups == {"pipe": {"train": ["1", "2"]}}
