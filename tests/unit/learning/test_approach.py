"""The choice between target and joint."""

import numpy as np
import pytest

from leakdet.detection.met_recordings import MetRecordings
from leakdet.learning.approach import chosen_approach

MET = MetRecordings(
    np.zeros((0, 16), np.uint8),
    np.zeros(0, np.uint8),
    {"sensor": {"train": ["A"]}, "site": {"train": ["s1"], "val": ["s2"]}},
)


@pytest.mark.parametrize(
    ("groups", "name", "why"),
    [
        ({"sensor": ["B", "B"]}, "target", "sensor B is new"),
        ({"sensor": ["A", "A"], "site": ["new", "new"]}, "joint", "sensor A is known"),
        ({"sensor": ["A", "B"]}, "joint", "B is not"),
        ({"site": ["s2", "s2"]}, "joint", "site s2 is known"),
        ({"site": ["s9", ""]}, "target", "site s9 is new"),
        ({"sensor": ["", ""], "site": ["s9", "s9"]}, "target", "site s9 is new"),
        ({"weather": ["wet", "dry"]}, "joint", "unknown"),
        ({}, "joint", "learn.from=target"),
    ],
)
def test_groups_decide_and_the_reason_is_told(groups: dict, name: str, why: str) -> None:
    columns = {column: np.array(values) for column, values in groups.items()}
    found = chosen_approach("auto", columns, MET, [], True)
    assert found.name == name
    assert why in found.reason


def test_what_is_asked_for_wins_and_without_a_store_only_the_new_ones_are_there() -> None:
    groups = {"sensor": np.array(["A"])}
    assert chosen_approach("target", groups, MET, [], True).name == "target"
    assert chosen_approach("auto", groups, MET, [], False).name == "target"
    assert chosen_approach("auto", groups, None, [], True).name == "joint"


def test_a_column_by_which_the_store_was_split_counts_as_a_place() -> None:
    met = MetRecordings(MET.hashes, MET.roles, {"pipe": {"train": ["1"]}})
    groups = {"pipe": np.array(["3"])}
    assert chosen_approach("auto", groups, met, ["pipe"], True).name == "target"
    assert chosen_approach("auto", groups, met, [], True).name == "joint"
