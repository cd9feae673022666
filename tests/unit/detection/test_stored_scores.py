import re

import numpy as np
import pytest

from leakdet.config import DecisionConfig
from leakdet.core.errors import SettingsError
from leakdet.detection.decision import DecisionRule, rule_for_scores
from leakdet.detection.stored_scores import MOST, ValidationScores, redecided
from leakdet.detection.thresholds import checked_policy

RNG = np.random.default_rng(0)
TRUTH = np.arange(200) % 2 == 1
SCORES = np.clip(0.3 * TRUTH + 0.7 * RNG.random(200), 0.0, 1.0)


def test_many_recordings_are_thinned_evenly_by_class_and_rank() -> None:
    truth = RNG.random(3 * MOST) < 0.1
    scores = RNG.random(3 * MOST)
    kept = ValidationScores.of(scores, truth)
    assert len(kept.scores) == MOST
    assert kept.is_leak.mean() == pytest.approx(truth.mean(), abs=1e-4)
    for share in (0.01, 0.5, 0.99):
        expected = np.quantile(scores[~truth], share)
        assert np.quantile(kept.scores[~kept.is_leak], share) == pytest.approx(expected, abs=1e-3)


def test_tensors_come_back_and_misfits_are_refused() -> None:
    tensors = ValidationScores(SCORES, TRUTH).tensors()
    back = ValidationScores.from_file(tensors)
    assert back is not None
    assert np.array_equal(back.scores, SCORES)
    assert np.array_equal(back.is_leak, TRUTH)
    assert ValidationScores.from_file({}) is None
    with pytest.raises(ValueError, match="fit together"):
        ValidationScores.from_file({**tensors, "val.is_leak": tensors["val.is_leak"][:3]})


VALIDATION = ValidationScores(SCORES, TRUTH)
OWN = rule_for_scores(SCORES, TRUTH, DecisionConfig(), fitted_on="val")


def test_nothing_asked_for_changes_nothing() -> None:
    assert redecided(OWN, VALIDATION) == (OWN, "")


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("max_f1", {"policy": "max_f1"}),
        ("max_fpr=0.1", {"policy": "max_fpr", "max_fpr": 0.1}),
        ("max_fpr", {"policy": "max_fpr"}),
        ("min_tpr=0.8", {"policy": "min_tpr", "min_tpr": 0.8}),
        ("min_cost=7", {"policy": "min_cost", "cost_miss": 7.0}),
    ],
)
def test_a_policy_fits_what_training_with_it_would_have_fitted(text: str, settings: dict) -> None:
    rule, sentence = redecided(OWN, VALIDATION, policy=text)
    assert rule == rule_for_scores(SCORES, TRUTH, DecisionConfig(**settings), fitted_on="val")
    called = rule.decide(SCORES)
    assert f"finds {called[TRUTH].sum()} of 100 leaks" in sentence
    assert f"raises {called[~TRUTH].sum()} false alarms on 100 without" in sentence
    assert f"own {OWN.threshold:.4g} (max_f1)" in sentence
    assert "fitted on these" in sentence


@pytest.mark.parametrize("how", [{"threshold": 0.9}, {"policy": "fixed=0.9"}])
def test_a_threshold_is_taken_as_it_is_and_its_effect_told(how: dict) -> None:
    rule, sentence = redecided(OWN, VALIDATION, **how)
    assert (rule.threshold, rule.policy, rule.fitted_on) == (0.9, "fixed", None)
    assert f"finds {(SCORES[TRUTH] >= 0.9).sum()} of 100 leaks" in sentence
    assert "fitted on these" not in sentence


def test_pooling_and_calibration_stay_the_models_own() -> None:
    vote = rule_for_scores(
        SCORES, TRUTH, DecisionConfig(pooling="vote", vote_fraction=0.3, calibration="platt")
    )
    rule, _ = redecided(vote, VALIDATION, policy="min_tpr=0.9")
    assert (rule.pooling, rule.vote_fraction) == ("vote", 0.3)
    assert rule.calibration == vote.calibration is not None


def test_without_validation_scores_a_policy_is_refused_and_a_threshold_told_blind() -> None:
    with pytest.raises(SettingsError, match=r"max_f1: .*no scores.*threshold"):
        redecided(OWN, None, policy="max_f1")
    rule, sentence = redecided(OWN, None, threshold=0.2)
    assert rule.threshold == 0.2
    assert "unknown" in sentence


def test_few_recordings_are_called_few_and_unresolved_rates_told() -> None:
    few = ValidationScores(SCORES[:16], TRUTH[:16])
    _, sentence = redecided(OWN, few, policy="max_fpr=0.01")
    assert "So few recordings" in sentence
    assert re.search(r"8 negatives .*0\.125", sentence)


@pytest.mark.parametrize(
    "how",
    [
        {"threshold": 1.5},
        {"threshold": float("nan")},
        {"threshold": 0.5, "policy": "max_f1"},
        *({"policy": text} for text in ("f1", "max_f1=1", "max_fpr=2", "min_tpr=x", "min_cost=0")),
    ],
)
def test_what_is_no_decision_is_refused_by_name(how: dict) -> None:
    with pytest.raises(SettingsError, match=r"threshold|policy"):
        checked_policy(how.get("threshold"), how.get("policy"))


def test_the_rule_of_an_old_file_is_changed_too() -> None:
    rule, _ = redecided(DecisionRule(), VALIDATION, policy="max_f1")
    assert rule.threshold == OWN.threshold
