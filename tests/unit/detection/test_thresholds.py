import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakdet.core.errors import InputError, SettingsError
from leakdet.detection.thresholds import (
    DEFAULT_THRESHOLD,
    NEVER,
    POLICIES,
    checked_scores,
    fit_threshold,
    rank,
)

PAIRS = st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=1, max_size=40)


def arrays(pairs: list[tuple[int, bool]]) -> tuple[np.ndarray, np.ndarray]:
    scores, is_leak = zip(*pairs, strict=True)
    return np.array(scores) / 8, np.array(is_leak)


@given(PAIRS)
def test_a_cut_counts_what_its_threshold_calls_a_leak(pairs: list[tuple[int, bool]]):
    scores, is_leak = arrays(pairs)
    ranking = rank(scores, is_leak)
    cuts = ranking.cuts()
    for threshold in [*np.unique(scores), 1.1]:
        called = scores >= threshold
        cut = ranking.cut(float(threshold))
        assert cuts.tp[0, cut] == (called & is_leak).sum()
        assert cuts.fp[0, cut] == (called & ~is_leak).sum()
    assert (cuts.positives[0], cuts.negatives[0]) == (is_leak.sum(), (~is_leak).sum())


@given(PAIRS, st.integers(0, 1000))
def test_weights_count_as_repeated_rows_would(pairs: list[tuple[int, bool]], seed: int):
    scores, is_leak = arrays(pairs)
    weights = np.random.default_rng(seed).integers(0, 4, len(scores))
    ranking = rank(scores, is_leak)
    weighted = ranking.cuts(weights[ranking.order][None])
    repeated, labels = np.repeat(scores, weights), np.repeat(is_leak, weights)
    for cut, score in enumerate(ranking.distinct.tolist(), 1):
        called = repeated >= score
        assert weighted.tp[0, cut] == (called & labels).sum()
        assert weighted.fp[0, cut] == (called & ~labels).sum()


def test_leaks_come_first_among_equal_scores_in_any_order_of_rows():
    ranking = rank(np.array([0.5, 0.5, 0.9]), np.array([False, True, False]))
    assert ranking.order.tolist() == [2, 1, 0]
    assert ranking.is_leak.tolist() == [False, True, False]
    assert ranking.ends.tolist() == [1, 3]
    assert ranking.leak_cuts.tolist() == [2]


@pytest.mark.parametrize("bad", [np.nan, -0.1, 1.5, np.inf])
def test_a_score_that_is_no_probability_is_named_with_its_row(bad: float):
    with pytest.raises(InputError, match=r"row 1 .*1 of 3 rows"):
        checked_scores(np.array([0.5, bad, 0.5]))
    if np.isfinite(bad):
        assert checked_scores(np.array([bad]), probabilities=False).tolist() == [bad]


FITTED = [policy for policy in POLICIES if policy != "fixed"]


@st.composite
def labelled(draw, min_size=1):
    width = draw(st.sampled_from([32, 64]))
    few = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
    elements = draw(st.sampled_from([few, st.floats(0, 1, width=width)]))
    rows = draw(st.lists(st.tuples(elements, st.booleans()), min_size=min_size, max_size=14))
    return np.array([score for score, _ in rows], np.float64), np.array(
        [leak for _, leak in rows], np.bool_
    )


def counts(scores, is_leak, threshold):
    called = scores >= threshold
    return int((called & is_leak).sum()), int((called & ~is_leak).sum())


def fits(policy, is_leak):
    return {"max_fpr": not is_leak.all(), "min_cost": True}.get(policy, bool(is_leak.any()))


def best_by_brute_force(scores, is_leak, policy, budget, cost_miss):
    """(tp, fp) of the best of all thresholds, from the highest down; ties go to the higher
    threshold.
    """
    p, n = int(is_leak.sum()), int((~is_leak).sum())
    options = [counts(scores, is_leak, t) for t in [2.0, *np.unique(scores)[::-1]]]
    match policy:
        case "max_f1":
            return max(options, key=lambda o: 2 * o[0] / (p + sum(o)))
        case "max_fpr":
            return [o for o in options if o[1] <= budget * n + 1e-9][-1]
        case "min_tpr":
            return next(o for o in options if o[0] >= budget * p - 1e-9)
        case _:
            return min(options, key=lambda o: cost_miss * (p - o[0]) + o[1])


@settings(deadline=None)
@given(
    labelled(),
    st.sampled_from(FITTED),
    st.sampled_from([0.0, 0.01, 0.29, 0.5, 0.95, 1.0]),
    st.sampled_from([0.0, 0.5, 1.0, 7.0]),
)
def test_threshold_is_the_best_of_all(data, policy, budget, cost_miss):
    scores, is_leak = data
    budget = budget if policy in ("max_fpr", "min_tpr") else None
    fit = fit_threshold(scores, is_leak, policy, budget=budget, cost_miss=cost_miss)
    assert 0.0 <= fit.threshold <= NEVER
    if not fits(policy, is_leak):
        assert fit.threshold == DEFAULT_THRESHOLD
        assert fit.note is not None
        assert "not a fit" in fit.note
        return
    threshold = json.loads(json.dumps(fit.threshold))
    wanted = best_by_brute_force(scores, is_leak, policy, budget, cost_miss)
    assert counts(scores, is_leak, threshold) == wanted
    if np.array_equal(scores.astype(np.float32), scores):
        assert counts(scores.astype(np.float32), is_leak, np.float32(threshold)) == wanted


@settings(deadline=None)
@given(labelled(), st.sampled_from(FITTED), st.randoms(use_true_random=False))
def test_order_of_recordings_and_rising_maps_change_no_verdict(data, policy, random):
    scores, is_leak = data
    fit = fit_threshold(scores, is_leak, policy)
    order = np.array(random.sample(range(len(scores)), len(scores)), np.int64)
    assert fit_threshold(scores[order], is_leak[order], policy) == fit
    if not fits(policy, is_leak):
        return
    ranks = np.unique(scores, return_inverse=True)[1]
    mapped = np.sort(np.array([random.random() for _ in range(len(scores) + 1)]))[ranks]
    if len(np.unique(mapped)) == len(np.unique(ranks)):
        other = fit_threshold(mapped, is_leak, policy).threshold
        assert (mapped >= other).tolist() == (scores >= fit.threshold).tolist()


def test_threshold_is_the_middle_between_the_neighbouring_scores():
    scores, is_leak = np.array([0.25, 0.5, 0.75, 1.0]), np.array([False, False, True, True])
    assert fit_threshold(scores, is_leak, "max_f1").threshold == 0.625
    assert fit_threshold(scores, is_leak, "max_fpr", budget=0.5).threshold == 0.375
    assert fit_threshold(scores, is_leak, "min_tpr", budget=0.5).threshold == 0.875


def test_threshold_between_neighbouring_floats_keeps_them_apart():
    for kind in (np.float32, np.float64):
        low = kind(0.3)
        high = np.nextafter(low, kind(1))
        fit = fit_threshold(np.array([low, high], kind), np.array([False, True]), "max_f1")
        assert float(low) < fit.threshold <= float(high)
        assert (np.array([low, high]) >= kind(fit.threshold)).tolist() == [False, True]


@pytest.mark.parametrize(
    ("scores", "leaks", "policy", "threshold", "words"),
    [
        ([], [], "max_f1", 0.5, "no recordings"),
        ([0.2, 0.9], [0, 0], "max_f1", 0.5, "no leaks among 2"),
        ([0.2, 0.5], [0, 0], "max_fpr", 0.75, "leaks this threshold misses"),
        ([0.2, 1.0], [0, 0], "max_fpr", NEVER, "no recording is called"),
        ([0.2, 0.9], [1, 1], "max_fpr", 0.5, "all 2 recordings are leaks"),
        ([0.5, 0.75], [1, 1], "max_f1", 0.25, "false alarms this threshold raises"),
        ([0.5], [1], "max_f1", 0.25, "one recording"),
        ([0.5, 0.5], [1, 0], "max_f1", 0.25, "all 2 scores are 0.5"),
        ([0.0, 0.0], [1, 0], "max_f1", 0.0, "every recording is called"),
        ([0.25, 0.75], [0, 1], "max_fpr", 0.5, "1 negatives"),
        ([0.25, 0.5], [1, 0], "min_cost", 0.75, "no recording is called"),
    ],
)
def test_degenerate_sets_give_a_threshold_and_say_so(scores, leaks, policy, threshold, words):
    fit = fit_threshold(np.array(scores, np.float64), np.array(leaks, np.bool_), policy)
    assert fit.threshold == pytest.approx(threshold, abs=1e-12)
    assert fit.note is not None
    assert words in fit.note


def test_an_ordinary_fit_has_no_note():
    assert (
        fit_threshold(np.array([0.1, 0.2, 0.8]), np.array([False, False, True]), "max_f1").note
        is None
    )


def test_fixed_is_the_number_given():
    data = np.array([0.1, 0.9]), np.array([False, True])
    assert fit_threshold(*data, "fixed").threshold == 0.5
    assert fit_threshold(*data, "fixed", budget=0.3).threshold == 0.3


@pytest.mark.parametrize(
    ("policy", "settings", "words"),
    [
        ("max_f2", {}, "allowed are max_f1"),
        ("max_fpr", {"budget": 1.5}, "it must lie in"),
        ("min_tpr", {"budget": float("nan")}, "it must lie in"),
        ("max_f1", {"budget": 0.5}, "takes no budget"),
        ("min_cost", {"cost_miss": -1.0}, "not negative"),
        ("min_cost", {"cost_miss": 0.0, "cost_false_dig": 0.0}, "not both 0"),
    ],
)
def test_bad_settings_are_refused(policy, settings, words):
    with pytest.raises(SettingsError, match=words):
        fit_threshold(np.array([0.1, 0.9]), np.array([False, True]), policy, **settings)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("bad", [float("nan"), -0.1, 1.1])
def test_bad_scores_are_refused(policy, bad):
    with pytest.raises(InputError, match="row 1"):
        fit_threshold(np.array([0.1, bad]), np.array([False, True]), policy)
