"""Trainings on a handful of recordings, and on the store's and these."""

from pathlib import Path

import numpy as np

from leakdet.evaluation.split_scores import apply_rule, score_split
from leakdet.learning.added import contents
from leakdet.learning.approach import JOINT, TARGET
from leakdet.learning.trainings import Material, train_in_passing, train_on, weighted_together
from leakdet.storage.opening import open_labelled
from leakdet.storage.views import pooled


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
