from pathlib import Path

import numpy as np
import pytest

from leakdet.detection.familiarity import SpectralReference
from leakdet.detection.met import MetRecordings
from leakdet.evaluation.met import features_of
from leakdet.evaluation.split_scores import apply_rule, score_split
from leakdet.learning.inputs import contents
from leakdet.learning.training import (
    JOINT,
    TARGET,
    Material,
    TrainingMode,
    chosen_mode,
    train_in_passing,
    train_on,
    weighted_together,
    with_doubt,
)
from leakdet.storage.opening import open_labelled
from leakdet.storage.views import pooled

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
    found = chosen_mode("auto", columns, MET, [], True)
    assert found.name == name
    assert why in found.reason


def test_what_is_asked_for_wins_and_without_a_store_only_the_new_ones_are_there() -> None:
    groups = {"sensor": np.array(["A"])}
    assert chosen_mode("target", groups, MET, [], True).name == "target"
    assert chosen_mode("auto", groups, MET, [], False).name == "target"
    assert chosen_mode("auto", groups, None, [], True).name == "joint"


def test_a_column_by_which_the_store_was_split_counts_as_a_place() -> None:
    met = MetRecordings(MET.hashes, MET.roles, {"pipe": {"train": ["1"]}})
    groups = {"pipe": np.array(["3"])}
    assert chosen_mode("auto", groups, met, ["pipe"], True).name == "target"
    assert chosen_mode("auto", groups, met, [], True).name == "joint"


def test_joint_is_doubted_where_most_of_the_sound_is_unfamiliar(learner) -> None:
    old, new = (open_labelled(store, "train") for store in (learner.store, learner.new()))
    reference = SpectralReference.of(features_of(old), old.is_leak)
    joint = TrainingMode(JOINT, "no column is known")
    assert with_doubt(joint, reference, old) == joint
    # leaks of this sensor lie in other bands: half of the recordings are no majority
    assert with_doubt(joint, reference, new) == joint
    far = SpectralReference.of(features_of(old) + 40.0, old.is_leak)
    doubted = with_doubt(joint, far, new)
    assert doubted.name == JOINT
    assert "8 of the 8 new recordings" in doubted.reason
    assert "learn.from=target" in doubted.reason
    assert with_doubt(joint, None, new) == joint
    target = TrainingMode(TARGET, "asked for")
    assert with_doubt(target, far, new) == target


def test_a_target_model_knows_the_new_recordings_alone(learner, tmp_path: Path) -> None:
    new = pooled([open_labelled(learner.new(), "train")])
    rows = np.arange(6)
    found = train_on(learner.config(None), Material(new, learner.store, TARGET), rows, tmp_path)
    scored = apply_rule(score_split(found, new), found.rule)
    assert (scored.decision == new.is_leak).all()
    assert found.card["training"]["recordings"] == {"train": 6}
    assert found.met is not None
    roles = found.met.roles_of(contents(new).tolist())
    assert roles == ["train"] * 6 + [""] * 2
    assert found.rule.threshold == 0.5


def test_one_in_eight_labels_wrong_does_not_ruin_it(learner, tmp_path: Path) -> None:
    new = pooled([open_labelled(learner.new(24), "train")])
    truth = new.is_leak.copy()
    wrong = np.arange(0, 16, 8)
    new.label_id[wrong] = 1 - new.label_id[wrong]
    material = Material(new, learner.store, TARGET)
    found = train_on(learner.config(None), material, np.arange(16), tmp_path)
    fresh = new.take(np.arange(16, 24), "test")
    assert (apply_rule(score_split(found, fresh), found.rule).decision == truth[16:]).mean() > 0.8


def test_a_joint_model_knows_both_and_new_ones_weigh_more(learner, tmp_path: Path) -> None:
    old = open_labelled(learner.store, "train")
    new = pooled([open_labelled(learner.new(sensor="A"), "train")])
    both = weighted_together(old, new, 3.0)
    assert both.numbers("weight", 1.0).tolist() == [1.0] * old.recordings + [3.0] * 8
    assert both.take(np.array([0, 19]), "x").numbers("weight", 1.0).tolist() == [1.0, 3.0]
    val = open_labelled(learner.store, "val")
    material = Material(new, learner.store, JOINT, old, val)
    found = train_in_passing(learner.config(None), material, np.arange(8), tmp_path / "fold")
    assert not (tmp_path / "fold").exists()
    assert found.card["training"]["recordings"] == {"train": old.recordings + 8, "val": 8}
    assert found.met is not None
    assert set(found.met.roles_of(contents(val).tolist())) == {"val"}
    assert found.met.groups["sensor"]["train"] == ["A", "B"]
