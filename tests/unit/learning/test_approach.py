"""The choice between target and joint."""

import numpy as np
import pytest

from leakdet.detection.met_recordings import MetRecordings
from leakdet.detection.spectral_reference import SpectralReference
from leakdet.evaluation.training_reference import features_of
from leakdet.learning.approach import JOINT, TARGET, Approach, chosen_approach, with_doubt
from leakdet.storage.opening import open_labelled

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


def test_joint_is_doubted_where_most_of_the_sound_is_unfamiliar(learner) -> None:
    old, new = (open_labelled(store, "train") for store in (learner.store, learner.new()))
    reference = SpectralReference.of(features_of(old), old.is_leak)
    joint = Approach(JOINT, "no column is known")
    assert with_doubt(joint, reference, old) == joint
    # leaks of this sensor lie in other bands: half of the recordings are no majority
    assert with_doubt(joint, reference, new) == joint
    far = SpectralReference.of(features_of(old) + 40.0, old.is_leak)
    doubted = with_doubt(joint, far, new)
    assert doubted.name == JOINT
    assert "known. 8 of the 8 new recordings are unfamiliar" in doubted.reason
    assert "learn.from=target" in doubted.reason
    assert with_doubt(joint, None, new) == joint
    target = Approach(TARGET, "asked for")
    assert with_doubt(target, far, new) == target
