import numpy as np
import pytest
from tests.unit.sites.conftest import TODAY, network, night_rows

from leakdet.detection.stored_scores import ValidationScores
from leakdet.evaluation.intervals import wilson
from leakdet.sites.rules import WorklistRules
from leakdet.sites.worklist import Worklist, make_worklist
from leakdet.sites.worth import RATE_LEVEL, Evidence, _wilson, chances, leak_shares, worths


def evidence(leaks: int = 200, others: int = 400, split: str = "test", seed: int = 0) -> Evidence:
    """Scores whose log-odds are normal around 1 and -1: the likelihood ratio is known."""
    rng = np.random.default_rng(seed)
    is_leak = np.arange(leaks + others) < leaks
    log_odds = rng.normal(np.where(is_leak, 1.0, -1.0), 1.0)
    return Evidence(1.0 / (1.0 + np.exp(-log_odds)), is_leak, split)  # type: ignore[arg-type]


def test_the_chance_follows_from_prior_and_likelihood_ratio() -> None:
    log_odds = np.array([-1.0, 0.0, 1.0, 2.0])
    prior_odds = 0.02 / 0.98
    # the ratio of both normal densities is exp(2 x)
    true = prior_odds * np.exp(2.0 * log_odds)
    scores = 1.0 / (1.0 + np.exp(-log_odds))
    found = chances(scores, np.full(4, prior_odds), evidence(20_000, 40_000))
    np.testing.assert_allclose(found, true / (1.0 + true), rtol=0.1)


def test_test_scores_are_preferred_to_those_that_chose_the_model() -> None:
    scores = ValidationScores(np.array([0.2, 0.9]), np.array([False, True]))
    none = ValidationScores(np.array([]), np.array([], bool))
    for tested, validation, split in (
        (scores, scores, "test"),
        (None, scores, "validation"),
        (none, scores, "validation"),
    ):
        kept = Evidence.kept(tested, validation)
        assert kept is not None
        assert (kept.split, kept.leaks, kept.others) == (split, 1, 1)
    assert Evidence.kept(None, None) is None


def test_no_score_claims_more_than_the_recordings_can_show() -> None:
    few = evidence(5, 5)
    certain = chances(np.array([1.0, 0.0]), np.full(2, 0.01), few)
    odds = certain / (1.0 - certain)
    assert odds[0] <= 0.01 * 6.0 + 1e-9
    assert odds[1] >= 0.01 / 6.0 - 1e-9
    assert any("too few" in note for note in few.notes())
    assert not any("too few" in note for note in evidence().notes())


def test_where_the_model_cannot_tell_the_chance_is_unknown() -> None:
    scores, odds = np.array([0.9, np.nan]), np.full(2, 0.01)
    assert np.isnan(chances(scores, odds, None)).all()
    alone = evidence(30, 0)
    assert np.isnan(chances(scores, odds, alone)).all()
    assert np.isnan(leak_shares(scores, odds, alone)[0]).all()
    assert "both are needed" in alone.notes()[0]
    assert np.isnan(chances(scores, odds, evidence())).tolist() == [False, True]


def test_validation_scores_are_said_to_be_optimistic() -> None:
    assert "also chosen" in evidence(split="validation").notes()[0]
    assert "also chosen" not in evidence().notes()[0]
    assert "of the test split" in evidence().notes()[0]
    by_folds = evidence(split="folds").notes()[0]
    assert "held out of training" in by_folds
    assert "test split" not in by_folds


def test_worth_is_what_a_leak_costs_times_its_chance_less_the_dig() -> None:
    rules = WorklistRules(dig_cost=3_000.0, leak_cost=50_000.0)
    assert worths(np.array([0.1]), rules).tolist() == [2_000.0]
    assert np.isnan(worths(np.array([0.1]), WorklistRules(dig_cost=3_000.0))).all()


def test_the_share_of_leaks_down_to_a_rank_covers_what_is_found() -> None:
    """Sites drawn as the evidence is: the share of true leaks lies in its interval."""
    rng = np.random.default_rng(3)
    covered = 0
    for seed in range(20):
        sites, prior = 4000, 0.05
        is_leak = rng.random(sites) < prior
        score = 1.0 / (1.0 + np.exp(-rng.normal(np.where(is_leak, 1.0, -1.0), 1.0)))
        order = np.argsort(-score)
        odds = np.full(sites, prior / (1.0 - prior))
        share, interval = leak_shares(score[order], odds, evidence(100, 200, seed=seed))
        true = is_leak[order][:200].mean()
        covered += interval[199, 0] <= true <= interval[199, 1]
        assert interval[199, 0] <= share[199] <= interval[199, 1]
    assert covered >= 18


def test_the_intervals_of_rates_are_wilsons() -> None:
    hits = np.array([0, 1, 7, 30])
    expected = [wilson(int(hit), 30, RATE_LEVEL) for hit in hits]
    np.testing.assert_allclose(np.stack(_wilson(hits, 30), axis=1), expected, atol=1e-12)


def test_few_recordings_make_a_wide_interval() -> None:
    scores, odds = np.array([0.95, 0.5]), np.full(2, 0.01)
    wide = leak_shares(scores, odds, evidence(5, 5))[1]
    narrow = leak_shares(scores, odds, evidence(500, 5000))[1]
    assert wide[1, 1] - wide[1, 0] > 3.0 * (narrow[1, 1] - narrow[1, 0])


@pytest.mark.parametrize("score", [0.2, 0.8])
def test_a_discount_of_the_prior_lowers_chance_and_share(score: float) -> None:
    scores = np.array([score])
    full, low = np.array([0.01]), np.array([0.001])
    assert chances(scores, low, evidence())[0] < chances(scores, full, evidence())[0]
    assert leak_shares(scores, low, evidence())[0][0] < leak_shares(scores, full, evidence())[0][0]


COSTS = WorklistRules(dig_cost=3_000.0, leak_cost=50_000.0)


def worklist(**more: object) -> Worklist:
    """A burst, a pump, a single alarm, a dead and a broken logger among quiet sites."""
    rows = network(10) + night_rows("burst", [0.1] * 6 + [0.9] * 4)
    rows += night_rows("pump", [0.95] * 10) + night_rows("once", [0.1] * 9 + [0.99])
    rows += night_rows("dead", [0.1] * 5)
    rows += night_rows("broken", [0.9] * 10, error="damaged")
    return make_worklist(rows, today=TODAY, **more)  # type: ignore[arg-type]


def test_news_comes_before_the_backlog_and_the_backlog_before_all_others() -> None:
    for known in ({"rules": COSTS, "evidence": evidence()}, {}):
        rows = worklist(**known).rows
        names = [row.site for row in rows]
        assert names[:2] == ["burst", "pump"]
        assert set(names[-2:]) == {"dead", "broken"}
        assert [row.list_name for row in rows[:3]] == ["news", "backlog", "other"]
    scores = [row.ranking_score for row in rows[2:-2] if row.ranking_score is not None]
    assert scores == sorted(scores, reverse=True)  # without evidence: the score ranks


def test_a_loud_site_of_the_backlog_stands_above_quiet_ones() -> None:
    """Alarms in 8 of 9 nights, from the first on, against evidence of few recordings."""
    rows = network(9) + night_rows("old", [0.9] * 4 + [0.4] + [0.83] * 4)
    listed = make_worklist(rows, WorklistRules(old_odds=0.01), evidence(3, 4), TODAY).rows
    assert (listed[0].site, listed[0].list_name) == ("old", "backlog")
    assert listed[0].chance is not None
    assert listed[0].chance < max(row.chance or 0.0 for row in listed[1:])  # by `old_odds`


def test_worth_falls_within_a_list_and_is_unknown_where_nothing_was_judged() -> None:
    rows = worklist(rules=COSTS, evidence=evidence()).rows
    for name in ("news", "backlog", "other"):
        worths = [row.worth for row in rows if row.list_name == name and row.worth is not None]
        assert worths == sorted(worths, reverse=True)
        assert len(worths) > 0
    for row in rows[-2:]:
        assert (row.worth, row.chance, row.leak_share, row.leak_share_interval) == (None,) * 4
    first = rows[0]
    assert first.chance is not None
    assert first.worth == first.chance * 50_000.0 - 3_000.0


def test_where_no_dig_pays_it_is_said_with_the_least_loss() -> None:
    dear = WorklistRules(dig_cost=2_000.0, leak_cost=5_000.0)
    made = worklist(rules=dear, evidence=evidence(20, 20))
    best = max(row.worth for row in made.rows if row.worth is not None)
    (sentence,) = [note for note in made.notes if "no dig pays" in note]
    assert f"lose {float(f'{-best:.2g}'):,.0f}." in sentence
    assert "above a chance of 40 %;" in sentence
    assert not any(
        "no dig pays" in note for note in worklist(rules=COSTS, evidence=evidence()).notes
    )


def test_the_discount_of_old_sounds_is_a_parameter() -> None:
    equal = WorklistRules(old_odds=1.0)
    made, discounted = (
        {row.site: row for row in worklist(rules=rules, evidence=evidence()).rows}["pump"]
        for rules in (equal, WorklistRules())
    )
    assert made.chance is not None
    assert discounted.chance is not None
    odds, lower = (chance / (1.0 - chance) for chance in (made.chance, discounted.chance))
    assert lower == pytest.approx(0.1 * odds)
    assert made.worth is None


def test_of_sites_that_score_alike_the_louder_comes_first() -> None:
    scores = [0.1] * 6 + [0.9] * 4
    rows = network(10)
    for name, rise in (("soft", 0.0), ("loud", 12.0), ("middle", 6.0)):
        rows += night_rows(name, scores, [-70.0] * 6 + [-70.0 + rise] * 4)
    names = [row.site for row in make_worklist(rows, COSTS, evidence(), TODAY).rows]
    assert names[:3] == ["loud", "middle", "soft"]
