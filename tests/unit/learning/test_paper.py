from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix

from leakdet.evaluation.split_scores import apply_rule, score_split
from leakdet.learning import paper
from leakdet.learning.paper import (
    CASES,
    case_of,
    learn_in_rounds,
    rounds_of,
    trains_as_leak,
    window_mask,
)
from leakdet.learning.training import JOINT, TARGET, Material
from leakdet.storage.model_file import load_mel_detector
from leakdet.storage.opening import open_labelled
from leakdet.storage.views import pooled


@pytest.mark.parametrize(
    ("verified", "predicted", "case", "leak"),
    [
        (True, True, "verified leak, found", True),
        (True, False, "verified leak, missed", True),
        (False, True, "verified normal, false alarm", False),
        (False, False, "verified normal", False),
        (None, True, "unverified, predicted leak", True),
        (None, False, "unverified, predicted normal", False),
    ],
)
def test_a_verification_outranks_a_prediction(
    verified: bool | None, predicted: bool, case: str, leak: bool
) -> None:
    assert case_of(verified, predicted) == case
    assert case in CASES
    assert trains_as_leak(verified, predicted) == leak


@pytest.mark.parametrize(
    ("keep", "leak", "kept"),
    [
        (0.5, True, [1, 3, 4]),  # half of five, rounded up
        (0.5, False, [0, 2, 3]),
        (0.6, True, [1, 3, 4]),  # not four, by rounding of 0.6 * 5
        (0.01, True, [1]),
        (0.01, False, [2]),
        (1.0, True, [0, 1, 2, 3, 4]),
    ],
)
def test_the_windows_most_like_the_label_are_kept_by_rank(
    keep: float, leak: bool, kept: list[int]
) -> None:
    low = 1e-3 * np.array([2, 9, 1, 3, 4.0])  # all far below any threshold
    mask = window_mask(low, np.array([0, 5]), np.array([leak]), keep)
    assert np.flatnonzero(mask).tolist() == kept


def test_each_recording_keeps_its_own_share() -> None:
    prob = np.array([0.1, 0.9, 0.5, 0.2])
    mask = window_mask(prob, np.array([0, 1, 4]), np.array([True, False]), 0.5)
    assert mask.tolist() == [True, False, True, True]


def test_rounds_are_in_time_order_and_keep_a_day_together() -> None:
    times = np.array(["d2", "d1", "d3", "d1", "d4", "d2"])
    assert rounds_of(times, 3).tolist() == [1, 0, 2, 0, 2, 1]
    assert rounds_of(np.array(["", "", ""]), 3).tolist() == [0, 0, 0]
    assert rounds_of(np.array(["a", "b"]), 5).tolist() == [0, 1]


def test_each_round_counts_its_cases_and_keeps_half_of_the_windows(learner, tmp_path: Path) -> None:
    old = load_mel_detector(learner.model)
    train, val = (open_labelled(learner.store, name) for name in ("train", "val"))
    new = pooled([open_labelled(learner.new(4, "A", 100), "train")])
    unverified = pooled([open_labelled(learner.new(8, "A", 200), "train")])
    hidden = replace(unverified, label_id=np.ones(8, np.int64))  # no label is known
    material = Material(new, learner.store, JOINT, train, val)
    config = learner.config(None, "learn.rounds=2")
    judges = pooled([open_labelled(learner.new(6, "A", 300), "train")])
    model, accounts = learn_in_rounds(
        config, old, material, np.arange(4), hidden, tmp_path / "run", judges=judges
    )
    (account,) = accounts  # no time is known: one round
    scored = apply_rule(score_split(model, judges), model.rule)
    tn, fp, fn, tp = confusion_matrix(scored.is_leak, scored.decision).flatten().tolist()
    expected = ((tp + tn) / 6, tp / (tp + fn), tn / (tn + fp), fp / (tn + fp), fn / (tp + fn))
    rates = ("accuracy", "sensitivity", "specificity", "fpr", "fnr")
    assert (account["judges"], *(account[name] for name in rates)) == (6, *expected)
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

    score_split = paper.score_split
    monkeypatch.setattr(paper, "score_split", spy)
    new = pooled([open_labelled(learner.new(8), "train")])
    dated = new.take(np.arange(8), "train")
    days = np.array(["2026-11-20"] * 4 + ["2026-12-02"] * 4, "datetime64[s]")
    monkeypatch.setattr(paper, "_times", lambda split: days[: split.recordings])
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
