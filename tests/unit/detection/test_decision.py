import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import expit, logit

from leakdet.config import DecisionConfig
from leakdet.core.errors import InputError, SettingsError
from leakdet.detection.calibration import Calibration
from leakdet.detection.decision import (
    POOLINGS,
    DecisionRule,
    check_pooling,
    doubt_limits,
    fit_rule,
    in_doubt,
    pool,
    pool_classes,
    rule_for_scores,
    votes_needed,
)
from leakdet.detection.thresholds import NEVER

RECORDINGS = st.lists(
    st.lists(st.floats(0.01, 0.99), min_size=1, max_size=9), min_size=1, max_size=6
)


@given(RECORDINGS, st.floats(0.01, 1.0))
def test_each_pooling_is_its_formula_on_each_recording(
    recordings: list[list[float]], fraction: float
):
    prob = np.concatenate([np.array(windows) for windows in recordings])
    offsets = np.concatenate([[0], np.cumsum([len(windows) for windows in recordings])])
    k = votes_needed(np.diff(offsets), fraction)
    expected = {
        "mean": [np.mean(windows) for windows in recordings],
        "logit_mean": [expit(np.mean(logit(windows))) for windows in recordings],
        "vote": [sorted(windows)[-count] for windows, count in zip(recordings, k, strict=True)],
    }
    for pooling in POOLINGS:
        np.testing.assert_allclose(pool(prob, offsets, pooling, fraction), expected[pooling])


@pytest.mark.parametrize(
    ("fraction", "windows", "votes"), [(0.1, 30, 3), (0.5, 3, 2), (1e-9, 5, 1), (1.0, 7, 7)]
)
def test_votes_are_the_fraction_rounded_up(fraction: float, windows: int, votes: int):
    assert votes_needed(np.array([windows]), fraction).tolist() == [votes]


def test_bad_settings_and_offsets_are_refused():
    with pytest.raises(SettingsError, match="median"):
        check_pooling("median", 0.5)
    with pytest.raises(SettingsError, match=r"vote_fraction is 0\.0"):
        check_pooling("vote", 0.0)
    prob = np.array([0.1, 0.2, 0.3])
    with pytest.raises(InputError, match=r"Recording 1 .* has no windows"):
        pool(prob, np.array([0, 2, 2, 3]), "mean")
    for offsets, message in (([0, 2], "0 to 3"), ([0, 2, 1, 3], "must not fall"), ([], "nothing")):
        with pytest.raises(ValueError, match=message):
            pool(prob, np.array(offsets, np.int64), "mean")
    assert pool(np.zeros(0), np.array([0]), "mean").tolist() == []


def test_classes_are_scaled_so_that_the_leaks_add_up_to_the_score() -> None:
    prob = np.array([[0.1, 0.2, 0.3, 0.4], [0.3, 0.2, 0.1, 0.4], [1.0, 0.0, 0.0, 0.0]], np.float32)
    score = np.array([0.9, 0.25])
    pooled = pool_classes(prob, np.array([0, 2, 3]), (1, 3), score)
    np.testing.assert_allclose(pooled.sum(axis=1), 1)
    np.testing.assert_allclose(pooled[:, [1, 3]].sum(axis=1), score)
    mean = prob[:2].mean(axis=0)
    np.testing.assert_allclose(pooled[0, 1] / pooled[0, 3], mean[1] / mean[3], rtol=1e-6)
    np.testing.assert_allclose(pooled[1], [0.75, 0.125, 0.0, 0.125])  # an even share of nothing


def test_where_the_score_is_that_of_the_class_head_nothing_is_scaled() -> None:
    prob = np.random.default_rng(0).dirichlet(np.ones(5), 12)
    offsets = np.array([0, 3, 4, 12])
    score = pool(prob[:, [0, 4]].sum(axis=1), offsets, "mean")
    means = [prob[a:b].mean(axis=0) for a, b in pairwise(offsets)]
    np.testing.assert_allclose(pool_classes(prob, offsets, (0, 4), score), means)


def test_no_recordings_and_no_classes() -> None:
    assert pool_classes(np.zeros((0, 3)), np.array([0]), (1,), np.zeros(0)).shape == (0, 3)
    assert pool_classes(np.zeros((4, 0)), np.array([0, 4]), (), np.ones(1)).shape == (1, 0)


RULE = DecisionRule(
    "vote",
    0.4,
    0.625,
    "max_fpr",
    0.01,
    fitted_on="val",
    note="few",
    calibration=Calibration("platt", 1.5, -0.2),
)


def offsets_of(lengths):
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


@st.composite
def ragged(draw):
    lengths = draw(st.lists(st.integers(1, 9), min_size=1, max_size=6))
    elements = (
        st.sampled_from([0.0, 0.25, 0.5, 1.0]) if draw(st.booleans()) else st.floats(0, 1, width=32)
    )
    prob = draw(hnp.arrays(np.float32, sum(lengths), elements=elements))
    return prob, offsets_of(lengths)


@settings(deadline=None)
@given(ragged(), st.fractions(Fraction(1, 40), 1, max_denominator=40))
def test_vote_score_reaches_a_threshold_exactly_when_enough_windows_do(recordings, share):
    prob, offsets = recordings
    scores = pool(prob, offsets, "vote", float(share))
    for threshold in np.unique(np.concatenate([prob, [0.3, 1.0]])):
        voted = [
            int((prob[a:b] >= threshold).sum()) >= max(1, share * int(b - a))
            for a, b in itertools.pairwise(offsets)
        ]
        assert (scores >= threshold).tolist() == voted


@pytest.mark.parametrize(
    ("fraction", "windows", "k"),
    [
        (0.1, 30, 3),
        (5 / 6, 6, 5),
        (1 / 3, 3, 1),
        (2 / 3, 3, 2),
        (0.07, 100, 7),
        (0.5, 1, 1),
        (0.5, 5, 3),
        (1.0, 7, 7),
        (1e-9, 9, 1),
    ],
)
def test_votes_needed_is_the_ceiling_without_floating_point_error(fraction, windows, k):
    assert votes_needed(np.array([windows]), fraction).tolist() == [k]


@settings(deadline=None)
@given(ragged())
def test_mean_and_logit_mean_are_the_means_of_each_recording(recordings):
    prob, offsets = recordings
    parts = [prob[a:b].astype(float) for a, b in itertools.pairwise(offsets)]
    np.testing.assert_allclose(pool(prob, offsets, "mean"), [p.mean() for p in parts], atol=1e-15)
    inside = [p.clip(2.0**-25, 1 - 2.0**-25) for p in parts]
    odds = [math.exp(np.mean(np.log(p / (1 - p)))) for p in inside]
    np.testing.assert_allclose(
        pool(prob, offsets, "logit_mean"), [o / (1 + o) for o in odds], rtol=1e-9
    )


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_score_depends_neither_on_neighbours_nor_on_the_order_of_windows(pooling):
    rng = np.random.default_rng(0)
    lengths = np.concatenate([rng.integers(1, 200, 300), np.full(300, 80)])
    prob, offsets = rng.random(lengths.sum(), dtype=np.float32), offsets_of(lengths)
    together = pool(prob, offsets, pooling, 0.3)
    for r in range(0, 600, 7):
        alone = prob[offsets[r] : offsets[r + 1]]
        assert pool(alone, offsets_of([len(alone)]), pooling, 0.3)[0] == together[r]
        assert pool(alone[::-1].copy(), offsets_of([len(alone)]), pooling, 0.3)[0] == pytest.approx(
            together[r], abs=1e-12
        )
    assert together.min() >= 0.0
    assert together.max() <= 1.0


@pytest.mark.parametrize("pooling", POOLINGS)
def test_one_window_and_no_recordings(pooling):
    assert pool(np.array([0.25]), np.array([0, 1]), pooling)[0] == pytest.approx(0.25, abs=1e-15)
    assert pool(np.zeros(0), np.array([0]), pooling).shape == (0,)


@pytest.mark.parametrize(
    ("prob", "offsets", "error", "words"),
    [
        ([0.1, 0.2], [0, 1, 1, 2], InputError, "Recording 1 .* no windows"),
        ([0.1, float("nan")], [0, 2], InputError, "row 1 is nan"),
        ([0.1, -3.5], [0, 2], InputError, "were logits passed"),
        ([0.1, 0.2], [0, 1], ValueError, "from 0 to 2"),
        ([0.1, 0.2], [1, 2], ValueError, "found 1 to 2"),
        ([0.1, 0.2], [0, 2, 1, 2], ValueError, "must not fall"),
    ],
)
def test_pool_refuses_what_it_cannot_score(prob, offsets, error, words):
    with pytest.raises(error, match=words):
        pool(np.array(prob), np.array(offsets), "mean")


@pytest.mark.parametrize(
    ("pooling", "fraction"), [("max", 0.5), ("vote", 0.0), ("vote", 1.01), ("vote", float("nan"))]
)
def test_pool_refuses_unknown_settings(pooling, fraction):
    with pytest.raises(SettingsError):
        pool(np.array([0.1]), np.array([0, 1]), pooling, fraction)


def test_a_score_at_the_threshold_is_a_leak_in_float32_and_float64():
    rule = DecisionRule(threshold=0.5)
    for kind in (np.float32, np.float64):
        assert rule.decide(np.array([0.5, np.nextafter(kind(0.5), kind(0))], kind)).tolist() == [
            True,
            False,
        ]


def test_no_probability_reaches_never():
    assert not DecisionRule(threshold=NEVER).decide(np.array([1.0], np.float32)).any()
    assert not (np.array([1.0], np.float32) >= np.float32(NEVER)).any()


def test_rule_survives_json_and_decides_as_before():
    back = DecisionRule.from_json(json.loads(json.dumps(RULE.to_json())))
    assert back == RULE
    assert DecisionRule.from_json(DecisionRule().to_json()) == DecisionRule()
    assert DecisionRule.from_json({**RULE.to_json(), "threshold": 1}).threshold == 1.0


def test_unfamiliar_is_what_lies_beyond_the_limit_of_the_setting():
    familiarity = np.array([0.5, 0.9, 1.0, 1.1])
    limits = {"off": [0, 0, 0, 0], "normal": [0, 0, 0, 1], "strict": [0, 1, 1, 1]}
    for setting, expected in limits.items():
        rule = DecisionRule(unfamiliar=setting)
        assert rule.is_unfamiliar(familiarity).tolist() == [bool(one) for one in expected]


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"treshold": 0.5}, InputError, "unknown keys: treshold"),
        ({"threshold": "0.5"}, InputError, "threshold .*finite number.*'0.5'"),
        ({"threshold": True}, InputError, "threshold .*finite number"),
        ({"threshold": None}, InputError, "threshold .*finite number"),
        ({"threshold": float("nan")}, InputError, "threshold .*finite number"),
        ({"threshold": 1.5}, SettingsError, "threshold is 1.5"),
        ({"policy": "best"}, SettingsError, "policy is 'best'"),
        ({"policy": "max_f1"}, SettingsError, "max_f1 takes no budget"),
        ({"pooling": 3}, InputError, "pooling .*text"),
        ({"vote_fraction": 0}, SettingsError, "vote_fraction is 0"),
        (
            {"calibration": {"kind": "platt", "slope": 1.0}},
            InputError,
            "calibration .*object",
        ),
        ({"calibration": {"kind": "platt", "slope": -1.0, "offset": 0.0}}, SettingsError, "slope"),
        (
            {"calibration": {"kind": "isotonic", "slope": 1.0, "offset": 0.0}},
            SettingsError,
            "isotonic",
        ),
        ({"note": 1}, InputError, "note .*text or null"),
        ({"unfamiliar": None}, InputError, "unfamiliar .*text"),
        ({"unfamiliar": "very"}, SettingsError, "unfamiliar is 'very'"),
        ({"source": "name"}, SettingsError, "source is 'name'; allowed are rate, off"),
        ({"doubt": 0.5}, SettingsError, "doubt is 0.5"),
        ({"doubt": None}, InputError, "doubt must be a finite number"),
    ],
)
def test_a_stored_rule_with_a_fault_is_refused_by_name(change, error, words):
    with pytest.raises(error, match=words):
        DecisionRule.from_json({**RULE.to_json(), **change})


def test_a_stored_rule_must_say_how_it_decides():
    with pytest.raises(InputError, match="lacks threshold, policy"):
        DecisionRule.from_json({"pooling": "mean", "vote_fraction": 0.5})


def test_fit_rule_stores_what_it_used_and_decides_as_it_was_fitted():
    rng = np.random.default_rng(1)
    is_leak = np.arange(60) % 3 == 0
    prob = np.clip(rng.normal(0.3 + 0.4 * np.repeat(is_leak, 10), 0.1), 0, 1).astype(np.float32)
    offsets = offsets_of([10] * 60)
    decision = DecisionConfig(policy="max_fpr", max_fpr=0.05, calibration="platt")
    rule = fit_rule(prob, offsets, is_leak, decision, fitted_on="val")
    alarms = rule.decide(rule.score(prob, offsets))
    assert (alarms[is_leak].all(), alarms[~is_leak].sum()) == (True, 2)
    assert (rule.budget, rule.cost_miss, rule.fitted_on, rule.note) == (0.05, None, "val", None)
    assert rule.calibration is not None
    costly = fit_rule(prob, offsets, is_leak, DecisionConfig(policy="min_cost", cost_miss=20.0))
    assert (costly.cost_miss, costly.cost_false_dig, costly.calibration, costly.fitted_on) == (
        20.0,
        1.0,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("decision", "budget"),
    [
        (DecisionConfig(policy="max_f1", max_fpr=0.3), None),
        (DecisionConfig(policy="max_fpr", max_fpr=0.3), 0.3),
        (DecisionConfig(policy="min_tpr", min_tpr=0.7), 0.7),
        (DecisionConfig(policy="fixed", threshold=0.2), 0.2),
        (DecisionConfig(policy="min_cost", threshold=0.2), None),
    ],
)
def test_each_policy_takes_its_own_number_of_the_settings(decision, budget):
    rule = rule_for_scores(np.array([0.1, 0.4, 0.6]), np.array([False, True, True]), decision)
    assert (rule.policy, rule.budget) == (decision.policy, budget)


def test_auto_is_max_f1_and_a_fixed_threshold_is_fitted_on_nothing():
    scores, is_leak = np.array([0.1, 0.4, 0.6]), np.array([False, True, True])
    rule = rule_for_scores(scores, is_leak, DecisionConfig(), fitted_on="val")
    assert (rule.policy, rule.fitted_on) == ("max_f1", "val")
    fixed = rule_for_scores(scores, is_leak, DecisionConfig(policy="fixed"), fitted_on="val")
    assert (fixed.threshold, fixed.fitted_on) == (0.5, None)


def test_calibrated_probabilities_keep_the_order_and_none_keeps_the_scores():
    scores = np.linspace(0, 1, 101)
    assert (np.diff(RULE.probability(scores)) > 0).all()
    assert DecisionRule().probability(scores).tolist() == scores.tolist()


PROBS = st.floats(1e-4, 1 - 1e-4)


@given(PROBS, PROBS, st.floats(0.0, 0.49), st.floats(0.0, 0.49))
def test_doubt_is_a_band_of_odds_that_grows_with_it(
    threshold: float, score: float, doubt: float, more: float
):
    lower, upper = doubt_limits(threshold, doubt)
    half = logit(0.5 + doubt)
    np.testing.assert_allclose(logit(lower) + half, logit(threshold), atol=1e-6)
    np.testing.assert_allclose(logit(upper) - half, logit(threshold), atol=1e-6)
    less, most = sorted((doubt, more))
    scores = np.array([score, threshold])
    assert in_doubt(scores, threshold, most)[in_doubt(scores, threshold, less)].all()
    assert not in_doubt(scores, threshold, 0.0).any()
    assert in_doubt(np.array([lower, upper]), threshold, doubt).sum() == 0  # open at both ends


def test_the_band_of_the_default_and_thresholds_that_have_none():
    assert doubt_limits(0.5, 0.2) == (0.3, 0.7)
    assert np.round(doubt_limits(0.97, 0.2), 2).tolist() == [0.93, 0.99]
    scores = np.array([0.0, 1e-9, 0.5, 1.0])
    for threshold in (0.0, 1.0, NEVER):
        assert not DecisionRule(threshold=threshold, doubt=0.2).in_doubt(scores).any()
    by_fold = in_doubt(np.array([0.6, 0.6]), np.array([0.5, 0.1]), 0.2)
    assert by_fold.tolist() == [True, False]


@given(ragged(), st.floats(0.05, 0.95))
def test_under_vote_enough_windows_pass_the_lower_limit_and_too_few_the_upper(recordings, share):
    prob, offsets = recordings
    rule = DecisionRule("vote", share, doubt=0.2)
    lower, upper = rule.doubt_limits
    for (a, b), found in zip(
        itertools.pairwise(offsets), rule.in_doubt(rule.score(prob, offsets)), strict=True
    ):
        k, votes = votes_needed(np.array([b - a]), share)[0], prob[a:b].astype(np.float64)
        assert found == ((votes > lower).sum() >= k > (votes >= upper).sum())


def test_the_doubt_in_words_and_calibrated():
    assert DecisionRule().doubt_text() == ""
    assert DecisionRule(doubt=0.2).doubt_text() == "leak_prob 0.3 to 0.7"
    low, high = RULE.probability(np.array(replace(RULE, doubt=0.2).doubt_limits))
    assert f"calibrated {low:.3g} to {high:.3g}" in replace(RULE, doubt=0.2).doubt_text()


def test_a_rule_from_before_has_no_doubt():
    before = {k: v for k, v in RULE.to_json().items() if k not in ("doubt", "source")}
    assert DecisionRule.from_json(before) == replace(RULE, doubt=0.0, source="rate")


@pytest.mark.parametrize(
    ("decision", "doubt"),
    [
        (DecisionConfig(), 0.2),
        (DecisionConfig(policy="fixed"), 0.2),
        (DecisionConfig(policy="max_fpr"), 0.0),
        (DecisionConfig(policy="min_cost"), 0.0),
        (DecisionConfig(policy="min_tpr", doubt=0.1), 0.1),
        (DecisionConfig(doubt=0.0), 0.0),
    ],
)
def test_the_default_doubt_is_none_where_a_person_chose_what_errors_cost(decision, doubt):
    rule = rule_for_scores(np.array([0.1, 0.4, 0.6]), np.array([False, True, True]), decision)
    assert rule.doubt == doubt
