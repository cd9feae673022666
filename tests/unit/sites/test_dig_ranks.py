"""The order of sites by the expected worth of a dig."""

from tests.unit.sites.conftest import TODAY, network, night_rows
from tests.unit.sites.test_dig_worth import evidence

from leakdet.sites.make_worklist import Worklist, make_worklist
from leakdet.sites.rules import WorklistRules

COSTS = WorklistRules(dig_cost=3_000.0, leak_cost=50_000.0)


def worklist(**more: object) -> Worklist:
    """A burst, a pump, a single alarm, a dead and a broken logger among quiet sites."""
    rows = network(10) + night_rows("burst", [0.1] * 6 + [0.9] * 4)
    rows += night_rows("pump", [0.95] * 10) + night_rows("once", [0.1] * 9 + [0.99])
    rows += night_rows("dead", [0.1] * 5)
    rows += night_rows("broken", [0.9] * 10, error="damaged")
    return make_worklist(rows, today=TODAY, **more)  # type: ignore[arg-type]


def test_news_comes_before_what_always_sounded_so_and_before_one_alarm() -> None:
    for known in ({"rules": COSTS, "evidence": evidence()}, {}):
        names = [row.site for row in worklist(**known).rows]
        assert names[0] == "burst"
        assert set(names[-2:]) == {"dead", "broken"}
    assert names[1:3] == ["once", "pump"]  # without evidence: by news alone


def test_worth_falls_from_rank_to_rank_and_is_unknown_where_nothing_was_judged() -> None:
    rows = worklist(rules=COSTS, evidence=evidence()).rows
    worths = [row.worth for row in rows if row.worth is not None]
    assert worths == sorted(worths, reverse=True)
    assert len(worths) == len(rows) - 2
    for row in rows[-2:]:
        assert (row.worth, row.chance, row.leak_share, row.leak_share_interval) == (None,) * 4
    first = rows[0]
    assert first.chance is not None
    assert first.worth == first.chance * 50_000.0 - 3_000.0


def test_the_discount_of_old_sounds_is_a_parameter() -> None:
    equal = WorklistRules(old_odds=1.0)
    names = [row.site for row in worklist(rules=equal, evidence=evidence()).rows]
    assert names[0] == "pump"
    assert all(row.worth is None for row in worklist(rules=equal, evidence=evidence()).rows)


def test_of_sites_that_score_alike_the_louder_comes_first() -> None:
    scores = [0.1] * 6 + [0.9] * 4
    rows = network(10)
    for name, rise in (("soft", 0.0), ("loud", 12.0), ("middle", 6.0)):
        rows += night_rows(name, scores, [-70.0] * 6 + [-70.0 + rise] * 4)
    names = [row.site for row in make_worklist(rows, COSTS, evidence(), TODAY).rows]
    assert names[:3] == ["loud", "middle", "soft"]
