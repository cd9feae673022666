"""Old and new model on recordings that neither has met."""

from pathlib import Path

import numpy as np
import pytest

from leakdet.learning.approach import TARGET
from leakdet.learning.guard import judge_group, judge_old_test, judge_out_of_fold
from leakdet.learning.held_out import HeldOut
from leakdet.learning.trainings import Material, train_on
from leakdet.storage.model_file import load_mel_detector
from leakdet.storage.opening import open_labelled
from leakdet.storage.views import SplitView, pooled


@pytest.fixture
def added(learner) -> SplitView:
    return pooled([open_labelled(learner.new(16), "train")])


def test_out_of_fold_every_new_recording_is_scored_by_a_model_of_others(
    learner, added: SplitView, tmp_path: Path
) -> None:
    old, trained_on = load_mel_detector(learner.model), []

    def train(rows):
        trained_on.append(set(rows.tolist()))
        material = Material(added, learner.store, TARGET)
        return train_on(learner.config(None), material, rows, tmp_path / str(len(trained_on)))

    found = judge_out_of_fold(old, train, added, 2, 0)
    assert len(trained_on) == 2
    assert set.union(*trained_on) == set(range(16))
    assert sorted(found.new.recording_id) == sorted(added.recording_ids)
    assert (found.new.decision == found.new.is_leak).all()
    assert found.verdict == "better"
    assert found.how == "16 new recordings, each scored by a model of other sites"


def test_a_group_that_the_old_model_has_met_decides_nothing(learner) -> None:
    old = load_mel_detector(learner.model)
    train = pooled([open_labelled(learner.store, "train")])
    held_out = HeldOut("sensor", "A", np.flatnonzero(train.groups["sensor"] == "A"))
    found = judge_group(old, old, train, held_out)
    assert found.verdict == "too few to tell"
    assert found.differences == []
    assert "has met in training" in found.sentence()


def test_a_held_out_group_compares_both(learner, added: SplitView) -> None:
    old = load_mel_detector(learner.model)
    rows = np.arange(8, 16)
    found = judge_group(old, old, added, HeldOut("site", "n2", rows))
    assert found.how == "8 recordings of site n2, which trained neither"
    assert [row["difference"] for row in found.differences] == [0.0] * 4
    assert found.verdict == "too few to tell"


def test_what_the_new_model_has_met_of_the_old_test_set_is_left_out(learner) -> None:
    old, test = load_mel_detector(learner.model), open_labelled(learner.store, "test")
    found = judge_old_test(old, old, test, [])
    assert found is not None
    assert len(found.new) == 4
    known = test.texts("content_sha256").tolist()
    found = judge_old_test(old, old, test, known[:2])
    assert found is not None
    assert len(found.new) == 2
    assert judge_old_test(old, old, test, known) is None
