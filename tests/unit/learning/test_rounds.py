"""Learning in rounds."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from leakdet.learning import rounds
from leakdet.learning.approach import JOINT, TARGET
from leakdet.learning.rounds import learn_in_rounds
from leakdet.learning.trainings import Material
from leakdet.storage.model_file import load_mel_detector
from leakdet.storage.opening import open_labelled
from leakdet.storage.views import pooled


def test_each_round_counts_its_cases_and_keeps_half_of_the_windows(learner, tmp_path: Path) -> None:
    old = load_mel_detector(learner.model)
    train, val = (open_labelled(learner.store, name) for name in ("train", "val"))
    new = pooled([open_labelled(learner.new(4, "A", 100), "train")])
    unverified = pooled([open_labelled(learner.new(8, "A", 200), "train")])
    hidden = replace(unverified, label_id=np.ones(8, np.int64))  # no label is known
    material = Material(new, learner.store, JOINT, train, val)
    config = learner.config(None, "learn.rounds=2")
    model, accounts = learn_in_rounds(config, old, material, np.arange(4), hidden, tmp_path / "run")
    (account,) = accounts  # no time is known: one round
    assert account["verified leak, found"] + account["verified leak, missed"] == 2
    assert account["verified normal"] + account["verified normal, false alarm"] == 2
    assert account["unverified, predicted leak"] == 4
    assert account["unverified, predicted normal"] == 4
    assert (account["windows"], account["windows_kept"]) == (48, 24)
    assert model.card["training"]["recordings"] == {"train": train.recordings + 12, "val": 8}
    assert model.met is not None


def test_the_next_round_is_called_by_the_model_of_the_one_before(
    learner, tmp_path: Path, monkeypatch
) -> None:
    called = []

    def spy(model, part):
        called.append((model, part.recordings))
        return score_split(model, part)

    score_split = rounds.score_split
    monkeypatch.setattr(rounds, "score_split", spy)
    new = pooled([open_labelled(learner.new(8), "train")])
    dated = new.take(np.arange(8), "train")
    days = np.array(["2026-11-20"] * 4 + ["2026-12-02"] * 4, "datetime64[s]")
    monkeypatch.setattr(rounds, "_times", lambda split: days[: split.recordings])
    old = load_mel_detector(learner.model)
    material = Material(dated, learner.store, TARGET)
    config = learner.config(None, "learn.rounds=2")
    model, accounts = learn_in_rounds(config, old, material, np.arange(8), None, tmp_path / "run")
    assert [count for _, count in called] == [4, 4]
    assert called[0][0] is old
    assert called[1][0] is not old
    assert [account["round"] for account in accounts] == [1, 2]
    assert sum(account["verified normal"] for account in accounts) <= 4
    assert model.card["training"]["recordings"] == {"train": 8}
    assert not list((tmp_path / "run").glob(".round*"))
